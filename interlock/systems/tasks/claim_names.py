"""The names that belong to one claim of a task: its branch, folders, agent and turn. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from interlock import Settings
from interlock.system.tables import Record, root_of
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State
from interlock.systems.tasks.work_folders import work_folder_of

# The states in which the last claim of a task is still the current one.
CLAIM_STATES = frozenset(
    {State.CLAIMED, State.IN_PROGRESS, State.ORPHANED, State.DONE, State.PENDING_APPROVAL}
)
BRANCHES = "interlock"
# The name of a record cannot contain it, so a review branch is never the branch of a claim.
REVIEW_MARK = "=="
SESSION_MARK = "=session"


@dataclass(frozen=True, slots=True)
class ClaimNames:
    """One claim of a task, by number. No two claims share a branch or a folder."""

    task: str
    number: int

    @property
    def name(self) -> str:
        """Return the name of the claim, unique in the backlog."""
        return f"{self.task.partition('/')[2].replace('/', '.')}~{self.number}"

    @property
    def agent(self) -> str:
        """Return the id of the agent's record."""
        return f"{root_of(self.task)}/agent~{self.name}"

    @property
    def turn(self) -> str:
        """Return the id of the turn's record."""
        return f"{root_of(self.task)}/turn~{self.name}"

    @property
    def branch(self) -> str:
        """Return the branch; git allows neither `~` nor two dots in its name."""
        safe = re.sub(r"\.(?=\.|$)|^\.|(?<=/)\.", "=", self.name.replace("~", "@"))
        return f"{BRANCHES}/{root_of(self.task)}/{safe.replace('.lock', '=lock')}"

    def worktree(self, settings: Settings, *, session: str = "") -> Path:
        """Return the folder of the worktree on this computer.

        All worktrees of a session, which is an agent's id, are in one folder: its process starts
        before they are made, and sees this folder of them alone.
        """
        backlog = settings.worktree_folder / root_of(self.task)
        name = session.partition("~")[2]
        return backlog / f"{name}{SESSION_MARK}" / self.name if session else backlog / self.name

    def review_branch(self, commit: str) -> str:
        """Return the branch of the checkout in which a commit of this claim is verified."""
        return f"{self.branch}{REVIEW_MARK}{commit[:12]}"

    def work_folder(self, settings: Settings) -> Path:
        """Return the folder with the launch spec, the logs and the output of the agent."""
        return work_folder_of(self.agent, settings)


def claim_to_come(record: Record[TaskData]) -> ClaimNames:
    """Return the names of the next claim of a task."""
    return ClaimNames(record.id, int(record.data["claimed"]) + 1)


def agent_of(record: Record[TaskData], number: int) -> str:
    """Return the id of the agent that has or had a claim of a task, by the claim's number."""
    claim = record.data.get("claim", {})
    agent = claim.get("agent") if claim.get("number") == number else None
    return str(agent or ClaimNames(record.id, number).agent)


def claim_names(record: Record[TaskData]) -> ClaimNames:
    """Return the names of the current claim of a task."""
    return ClaimNames(record.id, int(record.data["claim"]["number"]))
