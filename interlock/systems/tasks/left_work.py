"""Says where the work of a task is that was not merged, and how to bring it back."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from interlock.git.branch import saved_ref
from interlock.git.errors import GitError
from interlock.git.refs import HEADS
from interlock.git.repository import COMMITTER, Repository
from interlock.git.saved_work import save_work
from interlock.git.worktree import Worktree
from interlock.system.records import Records
from interlock.system.tables import Record, RecordContent
from interlock.systems.tasks.claim_names import CLAIM_STATES, ClaimNames
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State
from interlock.systems.tasks.machines.turn.table import State as TurnState
from interlock.systems.tasks.machines.turn.table import TurnData

CLAIMS_SHOWN_MAX = 20  # claims of a task, the newest, whose work is listed
REASON_LENGTH_MAX = 2_000


@dataclass(frozen=True, slots=True)
class LeftWork:
    """What the claim `number` left: its place on a computer, why there, how to look at it."""

    number: int
    host: str
    place: str
    command: str
    why: str = ""

    @property
    def sentence(self) -> str:
        """Return the place and the command as text for people."""
        where = f" on {self.host}" if self.host else ""
        return f"the work of claim {self.number} is {self.place}{where}: `{self.command}`{self.why}"


def left_work(records: Records, record: Record[TaskData]) -> list[LeftWork]:
    """Return what the last claims of a task left that was not merged, the last claim first."""
    last = int(record.data.get("claimed", 0))
    numbers = range(last, max(0, last - CLAIMS_SHOWN_MAX), -1)
    turns = {number: ClaimNames(record.id, number).turn for number in numbers}
    found = records.views.records(list(turns.values()), readable_by=records.machines)
    current = last if record.state in CLAIM_STATES else 0
    return [
        left
        for number, turn in turns.items()
        if number != current and turn in found and (left := _left_by(record, found[turn], number))
    ]


def save_uncommitted(
    repository: Repository, tree: Worktree, refusal: Exception, *, message: str
) -> str:
    """Save work whose commit was refused; return the refusal and where the work is, for people."""
    try:
        save_work(repository, tree, message=message, identity=COMMITTER)
        command = checkout_command(str(repository.root), HEADS + tree.branch)
        where = f"the work is saved on the branch {tree.branch}: `{command}`"
    except (GitError, OSError):
        where = f"the work stays in the worktree {tree.folder}"
    cut_at = REASON_LENGTH_MAX - len(where) - 2
    return f"{f'its work cannot be committed: {refusal}'[:cut_at]}; {where}"


def checkout_command(repo: str, ref: str) -> str:
    """Return the command that checks a ref out in a new folder beside the repository."""
    folder = Path(repo).with_name(f"{Path(repo).name}.{ref.rpartition('/')[2]}")
    name = ref.removeprefix(HEADS)
    return shlex.join(("git", "-C", repo, "worktree", "add", "--detach", str(folder), name))


def _left_by(
    record: Record[TaskData], turn: RecordContent[TurnData], number: int
) -> LeftWork | None:
    data = turn.data
    left = data.get("left", {})
    host = str(data.get("host") or "")
    if ref := left.get("ref"):
        if record.state == State.CLOSED and ref.startswith(HEADS):
            ref = saved_ref(ref.removeprefix(HEADS))
        place = f"at {ref}" if not ref.startswith(HEADS) else f"on {ref.removeprefix(HEADS)}"
        return LeftWork(number, host, place, checkout_command(str(data["repo"]), ref))
    folder = str(left.get("worktree") or "")
    if not folder and turn.state != TurnState.REAPED and data.get("repo"):
        folder = str(data.get("worktree") or "")
    if not folder:
        return None
    why = f" ({left['why']})" if left.get("why") else " (until it is saved)"
    return LeftWork(number, host, f"in {folder}", shlex.join(("cd", folder)), why)
