"""Where one claim of a task is worked on: names of branch, worktree, agent and turn; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from interlock.kernel.record import Record, record_id, root_of
from interlock.workers.config import Settings

# The states in which a task is about its last claim.
AT_WORK = frozenset({"claimed", "in_progress", "orphaned", "done", "pending_approval"})
BRANCHES = "interlock"
# No name of a record has it, so it is no other claim's branch.
COURT = "=="


@dataclass(frozen=True, slots=True)
class Workplace:
    """A claim by number. Each has a branch and a folder of its own, so that none meets another."""

    task: str
    number: int

    @property
    def name(self) -> str:
        """Return what tells this claim from every other of the backlog."""
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

    def folder(self, settings: Settings) -> Path:
        """Return the worktree's folder on this machine."""
        return settings.home.absolute() / "worktrees" / root_of(self.task) / self.name

    def court(self, commit: str) -> str:
        """Return the branch of the checkout in which a commit of this claim is judged."""
        return f"{self.branch}{COURT}{commit[:12]}"

    def work_folder(self, settings: Settings) -> Path:
        """Return the folder of what the keeper keeps: its order, its log, the agent's output."""
        return work_folder_of(self.agent, settings)


def work_folder_of(agent: str, settings: Settings) -> Path:
    """Return the folder of what an agent's keeper keeps on this machine."""
    root, _, name = record_id(agent).partition("/agent~")
    return settings.home.absolute() / "keepers" / root / name


def workplace_of(record: Record) -> Workplace:
    """Return where a claimed task is worked on."""
    return Workplace(record.id, int(record.data["claim"]["number"]))
