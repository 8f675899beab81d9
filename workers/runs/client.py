"""What people and programs tell runs of codons, a method for each verb; it decides nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from interlock.kernel.errors import (
    CallError,
    InvalidPayloadError,
    StoreDownError,
    UnknownRecordError,
)
from interlock.kernel.event import Cause, Note
from interlock.kernel.machines.runs.codon.names import SELF as CODON
from interlock.kernel.machines.runs.codon.names import Trigger as OfCodon
from interlock.kernel.machines.runs.events import RunEvent, published_form
from interlock.kernel.machines.runs.run.table import SELF as RUN
from interlock.kernel.machines.runs.run.table import Trigger as OfRun
from interlock.kernel.machines.runs.translation import published
from interlock.kernel.record import Record, RecordId, root_of
from interlock.workers.client import Client
from interlock.workers.engine.polling import Intervals, polls
from interlock.workers.runs.archive.export import Exported, validate_export, write_export
from interlock.workers.runs.archive.findings import Validation
from interlock.workers.runs.archive.importing import Imported, import_export
from interlock.workers.runs.archive.inventory import is_known
from interlock.workers.runs.archive.repair import mend
from interlock.workers.runs.archive.validation import validate
from interlock.workers.runs.checkpoints import (
    CheckpointError,
    Known,
    before,
    checkpoints,
    going_on,
    named,
)
from interlock.workers.runs.history import codons_of, kept
from interlock.workers.runs.plan.file import read_plan
from interlock.workers.runs.plan.model import Plan
from interlock.workers.runs.start import (
    Begin,
    RunRefusedError,
    begin,
    newest,
    open_workspace,
    settled,
    workspace_id,
)

PAGE = 500
NOTHING_HEARD = "0-0"
Reason = Literal["retry", "rollback", "continue"]


class UnknownWorkspaceError(CallError):
    """No run ever began in this folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"no run began in {folder.resolve()} yet; `interlock run start` begins one"
        )
        self.folder = folder


@dataclass(frozen=True, slots=True)
class Receipt:
    """An event was taken in: its id, and how far its workspace was then."""

    workspace: RecordId
    id: str
    version: int


@dataclass(frozen=True, slots=True)
class Heard:
    """An event that was applied, and where it stands among all of its workspace's."""

    position: str
    record: RecordId
    event: Mapping[str, Any]

    @property
    def ends(self) -> bool:
        """Whether it is the end of a run."""
        return self.event.get("type") in ("RunCompleted", "RunFailed", "RunCrashed")


class Runs:
    """The verbs of runs, over a client. A workspace is known by its folder on this machine."""

    def __init__(self, client: Client) -> None:
        self.client, self.dispatch = client, client.dispatch

    # --- to begin and to end ------------------------------------------------------------------

    def start(self, plan: Path, workspace: Path) -> Record:
        """Begin a run of a plan, with the workspace as it is. Returns the run.

        Raises PlanInvalidError, which lists all that is wrong; RunRefusedError while one works.
        """
        if not workspace.is_dir():
            raise RunRefusedError(f"the workspace {workspace} is no folder; make it first")
        found = read_plan(plan, workspace)
        opened = open_workspace(self.dispatch, workspace, self._cause("a run begins"))
        what = Begin(found.stored(), {"kind": "fresh"})
        return begin(self.dispatch, opened, what, self._cause(f"run {plan.name}"))

    def proceed(self, workspace: Path, *, as_is: bool = False) -> Record:
        """Go on with the last run, from its last checkpoint that counts.

        What differs from that is kept on a recovery branch, and undone; unless the workspace is
        to stay `as_is`, because somebody has mended it.
        """
        opened, run = self._ended(workspace)
        if run.state == "completed":
            raise RunRefusedError(
                f"run {run.id} is completed, and nothing of its plan is left to do; `redo` or "
                "`rollback` go back, `start` begins anew"
            )
        known = going_on(self.dispatch, run)
        if known is None:
            # It ended before it had begun: what counted for it counts on.
            counted = tuple(kept(one) for one in run.data["done"])
            what = Begin(run.data["plan"], run.data["starting"], counted)
            return begin(self.dispatch, opened, what, self._cause("continue"))
        return self._again(opened, known, "continue", as_is=as_is)

    def redo(self, workspace: Path, codon: str = "", *, as_is: bool = False) -> Record:
        """Execute a codon anew, and all that follows: the one that failed, if none is named.

        It begins with the checkpoint before it, or with the workspace `as_is`.
        """
        opened, run = self._ended(workspace)
        name = codon or str(run.data.get("ended", {}).get("codon", ""))
        if not name:
            executed = codons_of(self.dispatch.views, run.id)
            if not executed:
                raise CheckpointError(f"run {run.id} has executed no codon yet")
            name = str(executed[-1].data["codon_id"])
        return self._again(opened, before(self.dispatch, run, name), "retry", as_is=as_is)

    def rollback(self, workspace: Path, to: str) -> Record:
        """Bring the workspace back to a checkpoint, and go on from there.

        What it is now is kept on a recovery branch before. Raises CheckpointError.
        """
        opened, _ = self._ended(workspace)
        return self._again(opened, named(self.dispatch, opened.id, to), "rollback")

    def skip(self, workspace: Path, *, reason: str = "") -> Record:
        """Skip the codon that is executed now; what it did stays in the workspace."""
        opened = self.workspace(workspace)
        codon = self.dispatch.views.holds(opened.id).get(CODON)
        if codon is None:
            raise RunRefusedError(f"no codon is executed in {opened.data['folder']} now")
        return self.client.fire(codon, OfCodon.SKIP_REQUESTED, {"reason": reason}, reason=reason)

    def stop(
        self, workspace: Path, *, reason: str = "", force: bool = False, wait_s: float = 0
    ) -> Record:
        """End the run: its codon fails, and both keep what they came to.

        By `force` its record ends at once, whether or not anybody is there to end its processes;
        without a checkpoint.
        """
        opened = self.workspace(workspace)
        run = self.dispatch.views.holds(opened.id).get(RUN)
        if run is None:
            raise RunRefusedError(f"no run is at work in {opened.data['folder']}")
        told_why = {"reason": reason or "stopped by a person"}
        trigger = OfRun.FAIL if force else OfRun.STOP_REQUESTED
        self.client.fire(run, trigger, told_why, reason=reason)
        return self.ended(run, wait_s)

    def close(self, workspace: Path, *, reason: str = "") -> Record:
        """Let no more runs begin in a folder, for good; what is known of them goes in time.

        The folder stays as it is, with its checkpoints.
        """
        opened = self.workspace(workspace)
        if run := self.dispatch.views.holds(opened.id).get(RUN):
            raise RunRefusedError(f"run {run} is at work there; stop it first")
        if self.dispatch.inboxes.after(opened.id, str(opened.data["acknowledged"]), 1):
            raise RunRefusedError("an event that was told is not answered yet; try again")
        return self.client.fire(opened.id, "close", {"reason": reason}, reason=reason)

    # --- to be seen ---------------------------------------------------------------------------

    def workspace(self, folder: Path) -> Record:
        """Return the workspace of a folder. Raises UnknownWorkspaceError."""
        try:
            return self.dispatch.views.record(workspace_id(folder, self.dispatch.settings.host))
        except UnknownRecordError:
            raise UnknownWorkspaceError(folder) from None

    def last(self, workspace: Record) -> Record:
        """Return the newest run of a workspace. Raises UnknownWorkspaceError."""
        number = newest(self.dispatch, workspace.id)
        if not number:
            raise UnknownWorkspaceError(Path(str(workspace.data["folder"])))
        return self._run(workspace, number)

    def one(self, folder: Path, number: int | None) -> Record:
        """Return a run of a folder by its number; the newest one where none is given."""
        opened = self.workspace(folder)
        return self.last(opened) if number is None else self._run(opened, number)

    def codons(self, run: str) -> list[Record]:
        """Return the executions of a run, the first one first."""
        return codons_of(self.dispatch.views, run)

    def plan(self, run: Record) -> Plan:
        """Return what a run does."""
        return Plan.of(run.data["plan"])

    def checkpoints(self, workspace: Path) -> list[Known]:
        """Return every checkpoint that can be gone back to, the oldest first."""
        return checkpoints(self.dispatch, self.workspace(workspace).id)

    def costs(self, workspace: Path, *, since: int | None = None) -> dict[str, int]:
        """Return what was paid, in micro-dollars: in the last run, in all, since a run's beginning.

        Each is a look at two counters, however many runs there are. `cost` is what counts as the
        codons'; `spent` is all the money that went, also for skipped codons and for sentinels.
        `late` is what agents had spent when somebody else ended their codon, or before they had
        named their session: it is part of neither.
        """
        opened = self.workspace(workspace)
        run, total = self.last(opened), settled(self.dispatch, opened)
        found = {
            "run": run.counters.get("tree.cost", 0),
            "run_spent": run.counters.get("tree.spent", 0),
            "total": total["cost"],
            "total_spent": total["spent"],
            "run_late": run.counters.get("tree.late", 0),
        }
        if since is not None:
            first = self._run(opened, since)
            found["since"] = total["cost"] - first.data["before"]["cost"]
            found["since_spent"] = total["spent"] - first.data["before"]["spent"]
        return found

    def heard(self, workspace: Record, after: str = NOTHING_HEARD) -> list[Heard]:
        """Return a page of the events that were applied after a position, in their order.

        At least once: who keeps the position of the last one it has dealt with misses none, and
        is told by MissedError where it comes so late that some are not kept. What is no published
        event has an empty `event`, and a position to go on from.
        """
        if not re.fullmatch(r"[0-9]{1,19}-[0-9]{1,19}", after):
            raise InvalidPayloadError("the position", [f"{after!r} does not look like 17-0"])
        rows = self.dispatch.views.chronicle(workspace.id, after, PAGE)
        lines = self.dispatch.views.events((of, version) for _, of, version in rows)
        found = {(str(line.record_id), int(line.version)): line for line in lines}
        about = self.dispatch.views.records({of for _, of, _ in rows})
        heard: list[Heard] = []
        for position, of, version in rows:
            line = found.get((of, version))
            event = published(line, about[of].machine, about[of].data) if line else None
            if event and event["type"] == "RunCrashed":
                event["data"] |= self._last_codon(of)
            heard.append(Heard(position, of, event or {}))
        return heard

    def follow(self, workspace: Record, after: str = NOTHING_HEARD) -> Iterator[Heard]:
        """Yield the events of a workspace in their order, and then what comes, without end."""
        pace = Intervals()
        while True:
            page = self.heard(workspace, after)
            for one in page:
                after = one.position
                if one.event:
                    yield one
            if page:
                pace.reset()
                continue
            pace.sleep()

    def ended(self, run: str, wait_s: float) -> Record:
        """Return a run once it and all that it left has ended, or when the time is up."""
        for _ in polls(wait_s):
            record = self.client.show(run)
            if record.state != "running" and not record.entries:
                break
        return record

    # --- events of others ---------------------------------------------------------------------

    def transition(
        self, workspace: Record, event: RunEvent, *, sender: str = "", op_id: str = ""
    ) -> Receipt:
        """Tell an event, and return at once: it is applied in its turn, and answered.

        Told again with its op-id, it counts once. Raises MailRefusedError where nothing is taken.
        """
        mail = {"sender": sender or self.client.actor, "event": published_form(event)}
        answer = self.dispatch.post(workspace.id, mail, op_id or uuid4().hex)
        return Receipt(workspace.id, answer.detail, workspace.version)

    def answer(self, receipt: Receipt) -> Note | None:
        """Return what became of an event: a note event_applied or event_refused; None so far."""
        for line in self.dispatch.views.log(receipt.workspace, after=receipt.version - 1):
            if isinstance(line, Note) and line.detail.get("mail") == receipt.id:
                return line
        return None

    def wait_for_pending(self, receipt: Receipt, *, wait_s: float = 30) -> Note:
        """Wait until an event and all that were told before it are dealt with.

        Returns what became of it. Raises StoreDownError when the time is up: no worker reads.
        """
        for _ in polls(wait_s):
            if found := self.answer(receipt):
                return found
        raise StoreDownError(f"event {receipt.id} is not read yet; is a worker up?")

    # --- to be kept ---------------------------------------------------------------------------

    def validate(self, workspace: Path, *, repair: bool = False) -> Validation:
        """Return what is wrong with the runs of a folder; repair before what needs no guess."""
        name = workspace_id(workspace, self.dispatch.settings.host)
        if not is_known(self.dispatch, name):
            raise UnknownWorkspaceError(workspace)
        if repair:
            return mend(self.dispatch, name, actor=self.client.actor)
        return validate(self.dispatch, name)

    def validate_export(self, file: Path, workspace: Path | None = None) -> Validation:
        """Return what is wrong with an export; with a folder also which checkpoints it lacks."""
        return validate_export(file, self.dispatch.machines, workspace)

    def export(self, workspace: Path, file: Path) -> Exported:
        """Write all runs of a folder into one file; what was there is kept as its backup."""
        return write_export(self.dispatch, self.workspace(workspace), file)

    def import_(self, file: Path, workspace: Path) -> Imported:
        """Bring the runs of a folder back, into a store that does not know them. Repeat it."""
        return import_export(self.dispatch, file, workspace, actor=self.client.actor)

    # --- inside -------------------------------------------------------------------------------

    def _ended(self, folder: Path) -> tuple[Record, Record]:
        opened = self.workspace(folder)
        run = self.last(opened)
        if run.state == "running":
            raise RunRefusedError(f"run {run.id} is at work; stop it first, or wait for its end")
        return opened, run

    def _again(
        self, opened: Record, known: Known, reason: Reason, *, as_is: bool = False
    ) -> Record:
        # Each run has its own plan: what counts at a checkpoint is told in that of its run.
        run = self.dispatch.views.record(known.run)
        source = {"run_id": known.run, "after_codon": known.after, "checkpoint_sha": known.sha}
        goes_on = {"source": source, "reason": reason, "restores": not as_is}
        starting = {"kind": "continuation", **goes_on}
        what = Begin(run.data["plan"], starting, known.done)
        return begin(self.dispatch, opened, what, self._cause(f"{reason} of {run.id}"))

    def _run(self, opened: Record, number: int) -> Record:
        try:
            return self.dispatch.views.record(f"{opened.id}/{number}")
        except UnknownRecordError:
            raise RunRefusedError(f"there is no run {number} in {opened.data['folder']}") from None

    def _last_codon(self, run: str) -> dict[str, Any]:
        found = self.codons(run)
        if not found:
            return {}
        last = found[-1]
        return {"last_codon_status": last.data.get("failed_during", last.state)}

    def _cause(self, reason: str) -> Cause:
        return Cause(self.client.actor, reason)


def number_of(run: str) -> int:
    """Return which run of its workspace a record is."""
    assert root_of(run) != run, "a run's id has its number"
    return int(run.split("/")[1])
