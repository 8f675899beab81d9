"""The client of runs of codons: a method for each operation of people and programs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from interlock import Client, Note, StoreError
from interlock.system.errors import InvalidPayloadError, UnknownRecordError
from interlock.system.records import polls
from interlock.system.tables import Record
from interlock.systems.runs.admission import refuse_invalid_runs, workspace_record
from interlock.systems.runs.archive.export import WrittenExport, validate_export, write_export
from interlock.systems.runs.archive.findings import Validation
from interlock.systems.runs.archive.importing import ImportResult, import_export
from interlock.systems.runs.archive.inventory import FROM_THE_START, is_known
from interlock.systems.runs.archive.repair import repair_workspace
from interlock.systems.runs.archive.validation import validate
from interlock.systems.runs.checkpoint_list import (
    CheckpointError,
    RunCheckpoint,
    checkpoint_before,
    find_checkpoint,
    list_checkpoints,
    resume_checkpoint,
)
from interlock.systems.runs.history import codons_of, execution_from_stored
from interlock.systems.runs.machines.codon.names import SELF as CODON
from interlock.systems.runs.machines.codon.names import Trigger as OfCodon
from interlock.systems.runs.machines.codon.payloads import CodonData
from interlock.systems.runs.machines.events import RunEvent, published_form
from interlock.systems.runs.machines.run.payloads import RunData
from interlock.systems.runs.machines.run.table import SELF as RUN
from interlock.systems.runs.machines.run.table import State as RunState
from interlock.systems.runs.machines.run.table import Trigger as OfRun
from interlock.systems.runs.machines.translation import published
from interlock.systems.runs.machines.workspace.table import Trigger as OfWorkspace
from interlock.systems.runs.machines.workspace.table import WorkspaceData
from interlock.systems.runs.paths import workspace_id
from interlock.systems.runs.plan.file import read_plan
from interlock.systems.runs.plan.model import RunPlan
from interlock.systems.runs.start import (
    RunRefusedError,
    RunSetup,
    UnknownWorkspaceError,
    check_folder,
    newest_run_number,
    open_workspace,
    runs_of,
    start_run,
    total_costs,
)
from interlock.systems.runs.state_file import validate_state_file, write_state_file

PAGE = 500
Reason = Literal["retry", "rollback", "continue"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """An event was delivered to a workspace: the event's id, and the workspace's version then."""

    workspace: str
    id: str
    version: int


class UnreadEventError(StoreError):
    """No worker has read an event in time. Start a worker, and ask for its answer again."""


@dataclass(frozen=True, slots=True)
class AppliedEvent:
    """An event that was applied, and its position among all events of its workspace.

    `event` is empty for a commit that is no published event.
    """

    position: str
    record: str
    event: Mapping[str, Any]

    @property
    def ends(self) -> bool:
        """Whether the event is the end of a run."""
        return self.event.get("type") in ("RunCompleted", "RunFailed", "RunCrashed")


class Runs:
    """The operations on runs. A workspace is found by its folder on this computer."""

    def __init__(self, client: Client) -> None:
        self.client, self.records = client, client.records

    def start(self, plan: Path, workspace: Path) -> Record[RunData]:
        """Start a run of a plan, with the workspace as it is. Returns the run.

        Raises FileError, which lists every problem; RunRefusedError while another run runs.
        """
        check_folder(workspace)
        found = read_plan(plan, workspace)
        self.records.admit([workspace_id(workspace, self.records.settings.host)], unnamed=1)
        opened = open_workspace(self.records, workspace, "a run starts")
        new = RunSetup(found.stored(), {"kind": "fresh"})
        return start_run(self.records, opened, new, f"run {plan.name}")

    def resume(self, workspace: Path, *, as_is: bool = False) -> Record[RunData]:
        """Resume the last run in a new one, from its last checkpoint that counts.

        The workspace is restored to that checkpoint, and its state before is kept on a recovery
        branch. With `as_is` it stays as it is, because a person has repaired it.
        """
        opened, run = self._ended(workspace)
        if run.state == RunState.COMPLETED:
            raise RunRefusedError(
                f"run {run.id} is completed, and nothing of its plan is left to do; `redo` or "
                "`rollback` restore a checkpoint, `start` starts anew"
            )
        checkpoint = resume_checkpoint(self.records, run)
        if checkpoint is None:
            # The run ended before its initial checkpoint: the new run has the same start.
            done = tuple(execution_from_stored(stored) for stored in run.data["done"])
            new = RunSetup(run.data["plan"], run.data["starting"], done)
            return start_run(self.records, opened, new, "continue")
        return self._continue_from(opened, checkpoint, "continue", as_is=as_is)

    def redo(self, workspace: Path, codon: str = "", *, as_is: bool = False) -> Record[RunData]:
        """Execute a codon again, and all that follow it: the one that failed, if none is named.

        The new run starts from the checkpoint before it, or from the workspace `as_is`.
        """
        opened, run = self._ended(workspace)
        name = codon or run.data.get("ended", {}).get("codon", "")
        if not name:
            executed = codons_of(self.records, run.id)
            if not executed:
                raise CheckpointError(f"run {run.id} has executed no codon yet")
            name = executed[-1].data["codon_id"]
        checkpoint = checkpoint_before(self.records, run, name)
        return self._continue_from(opened, checkpoint, "retry", as_is=as_is)

    def rollback(self, workspace: Path, to: str) -> Record[RunData]:
        """Restore the workspace to a checkpoint, and go on from there in a new run.

        The workspace's state before is kept on a recovery branch. Raises CheckpointError.
        """
        opened, _ = self._ended(workspace)
        checkpoint = find_checkpoint(self.records, opened.id, to)
        return self._continue_from(opened, checkpoint, "rollback")

    def skip(self, workspace: Path, *, reason: str = "") -> Record[CodonData]:
        """Skip the codon that is executed now; its changes stay in the workspace."""
        opened = self.workspace(workspace)
        codon = self.records.views.holds(opened.id).get(CODON)
        if codon is None:
            raise RunRefusedError(f"no codon is executed in {opened.data['folder']} now")
        return self.client.fire(codon, OfCodon.SKIP_REQUESTED, {"reason": reason}, reason=reason)

    def stop(
        self, workspace: Path, *, reason: str = "", force: bool = False, wait_s: float = 0
    ) -> Record[RunData]:
        """End the run: its codon fails, and the changes of all its codons stay.

        With `force` its record ends at once, without a checkpoint, even where no supervisor is
        alive that could end its processes.
        """
        opened = self.workspace(workspace)
        run_id = self.records.views.holds(opened.id).get(RUN)
        if run_id is None:
            raise RunRefusedError(f"no run is running in {opened.data['folder']}")
        payload = {"reason": reason or "stopped by a person"}
        trigger = OfRun.FAIL if force else OfRun.STOP_REQUESTED
        self.client.fire(run_id, trigger, payload, reason=reason)
        return self.wait_for_end(run_id, wait_s)

    def close(self, workspace: Path, *, reason: str = "") -> Record[WorkspaceData]:
        """Close a folder: no run can start there again, and its records are deleted in time.

        The folder stays as it is, with its checkpoints.
        """
        opened = self.workspace(workspace)
        if run_id := self.records.views.holds(opened.id).get(RUN):
            raise RunRefusedError(f"run {run_id} is running there; stop it first")
        if self.records.inboxes.after(opened.id, opened.data["acknowledged"], 1):
            raise RunRefusedError("an event that was delivered is not answered yet; try again")
        return self.client.fire(opened.id, OfWorkspace.CLOSE, {"reason": reason}, reason=reason)

    def workspace(self, folder: Path) -> Record[WorkspaceData]:
        """Return the workspace of a folder. Raises UnknownWorkspaceError."""
        name = workspace_id(folder, self.records.settings.host)
        try:
            return workspace_record(self.records, name)
        except UnknownRecordError:
            raise UnknownWorkspaceError(folder) from None

    def last(self, workspace: Record[WorkspaceData]) -> Record[RunData]:
        """Return the newest run of a workspace. Raises UnknownWorkspaceError."""
        number = newest_run_number(self.records, workspace.id)
        if not number:
            raise UnknownWorkspaceError(Path(workspace.data["folder"]))
        return self._run(workspace, number)

    def run(self, folder: Path, number: int | None) -> Record[RunData]:
        """Return a run of a folder by its number; the newest one where it is None."""
        opened = self.workspace(folder)
        return self.last(opened) if number is None else self._run(opened, number)

    def codons(self, run_id: str) -> list[Record[CodonData]]:
        """Return the executions of a run, the oldest first."""
        return codons_of(self.records, run_id)

    def plan(self, run: Record[RunData]) -> RunPlan:
        """Return the plan of a run."""
        return RunPlan.of(run.data["plan"])

    def checkpoints(self, workspace: Path) -> list[RunCheckpoint]:
        """Return every checkpoint that the workspace can be restored to, the oldest first."""
        return list_checkpoints(self.records, self.workspace(workspace).id)

    def costs(self, workspace: Path, *, since: int | None = None) -> dict[str, int]:
        """Return costs in micro-dollars: of the last run, of all runs, of run `since` and newer.

        Each needs two counters, however many runs there are. `cost` is the codons' cost; `spent` is
        all the money that was paid, also for skipped codons and for sentinels. `late` is in
        neither: money that an agent spent but that its codon's record could not count, because the
        agent reported no session or the codon had ended already.
        """
        opened = self.workspace(workspace)
        run, total = self.last(opened), total_costs(self.records, opened.id)
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

    def events_after(
        self, workspace: Record[WorkspaceData], position: str = FROM_THE_START
    ) -> list[AppliedEvent]:
        """Return a page of the events that were applied after a position, in their order.

        A reader that stores the position of the last event that it has handled gets each event at
        least once. Raises MissedError where events after the position have been deleted already.
        """
        if not re.fullmatch(r"[0-9]{1,19}-[0-9]{1,19}", position):
            raise InvalidPayloadError("the position", [f"{position!r} does not look like 17-0"])
        commits = self.records.views.family_log(workspace.id, position, PAGE)
        lines = self.records.views.events((record, version) for _, record, version in commits)
        line_of = {(str(line.record_id), int(line.version)): line for line in lines}
        records = self.records.views.records({record for _, record, _ in commits})
        applied: list[AppliedEvent] = []
        for commit_position, record_id, version in commits:
            event: dict[str, Any] | None = None
            if line := line_of.get((record_id, version)):
                record = records[record_id]
                event = published(line, record.machine, record.data)
            if event and event["type"] == "RunCrashed":
                event["data"] |= self._last_codon_status(record_id)
            applied.append(AppliedEvent(commit_position, record_id, event or {}))
        return applied

    def follow(
        self, workspace: Record[WorkspaceData], after: str = FROM_THE_START
    ) -> Iterator[AppliedEvent]:
        """Yield the events of a workspace in their order, then each new one, without end."""
        while True:
            for _ in polls(math.inf):
                if page := self.events_after(workspace, after):
                    break
            after = page[-1].position
            yield from (applied for applied in page if applied.event)

    def wait_for_end(self, run_id: str, wait_s: float) -> Record[RunData]:
        """Return a run once it and its effects have ended, or when the time is up."""
        for _ in polls(wait_s):
            record = self.client.show(run_id)
            if record.state != RunState.RUNNING and not record.entries:
                break
        return record

    def transition(
        self,
        workspace: Record[WorkspaceData],
        event: RunEvent | Mapping[str, Any],
        *,
        sender: str = "",
        op_id: str | None = None,
    ) -> Receipt:
        """Deliver an event and return at once; it is applied in its turn, and answered.

        A mapping is an event as JSON, in our names or in the page's; it is answered in the same.
        Delivered again with its op-id it counts once. Raises MailRefusedError where the workspace
        takes no event.
        """
        form = event if isinstance(event, Mapping) else published_form(event)
        mail = {"sender": sender or self.client.actor, "event": form}
        mail_id = self.records.post(workspace.id, mail, op_id=op_id)
        return Receipt(workspace.id, mail_id, workspace.version)

    def answer(self, receipt: Receipt) -> Note | None:
        """Return the answer to an event, a note event_applied or event_refused, or None so far."""
        before = f"{receipt.version - 1}-0"
        for line in self.records.views.log(receipt.workspace, after=before):
            if isinstance(line, Note) and line.detail.get("mail") == receipt.id:
                return line
        return None

    def wait_for_pending(self, receipt: Receipt, *, wait_s: float = 30) -> Note:
        """Wait until an event and all events delivered before it are answered.

        Returns the answer. Raises UnreadEventError when the time is up.
        """
        for _ in polls(wait_s):
            if found := self.answer(receipt):
                return found
        raise UnreadEventError(f"event {receipt.id} is not read yet; is a worker up?")

    def validate(self, workspace: Path, *, repair: bool = False) -> Validation:
        """Return what is wrong with the runs of a folder; first repair what needs no guess."""
        name = workspace_id(workspace, self.records.settings.host)
        if not is_known(self.records, name):
            raise UnknownWorkspaceError(workspace)
        if repair:
            return repair_workspace(self.records, name)
        return validate(self.records, name)

    def validate_export(self, file: Path, workspace: Path | None = None) -> Validation:
        """Return what is wrong with an export or state file; with a folder also its checkpoints."""
        if (found := validate_state_file(file, workspace)) is not None:
            return found
        return validate_export(file, self.records.machines, workspace)

    def export(self, workspace: Path, file: Path) -> WrittenExport:
        """Write all runs of a folder into one file; its old content is kept as its backup."""
        return write_export(self.records, self.workspace(workspace), file)

    def export_state(self, workspace: Path, file: Path) -> WrittenExport:
        """Write all runs of a folder as the page's state file, also while one is running."""
        runs = runs_of(self.records, self.workspace(workspace).id)
        return write_state_file(file, [(run, self.codons(run.id)) for run in runs])

    def import_(self, file: Path, workspace: Path) -> ImportResult:
        """Restore the runs of a folder into a store that lost them; repeat it if interrupted."""
        return import_export(self.records, file, workspace)

    def _ended(self, folder: Path) -> tuple[Record[WorkspaceData], Record[RunData]]:
        opened = self.workspace(folder)
        newest = newest_run_number(self.records, opened.id)
        refuse_invalid_runs(self.records, opened.id, [str(newest or "")])
        run = self.last(opened)
        if run.state == RunState.RUNNING:
            raise RunRefusedError(f"run {run.id} is running; stop it first, or wait for its end")
        self.records.admit((), unnamed=1)  # the run that goes on from it
        return opened, run

    def _continue_from(
        self,
        opened: Record[WorkspaceData],
        checkpoint: RunCheckpoint,
        reason: Reason,
        *,
        as_is: bool = False,
    ) -> Record[RunData]:
        # Each run has its own plan: the executions that count are those of the checkpoint's run.
        run: Record[RunData] = self.records.views.record(checkpoint.run)
        starting = {
            "kind": "continuation",
            "source": {
                "run_id": checkpoint.run,
                "after_codon": checkpoint.after,
                "checkpoint_sha": checkpoint.sha,
            },
            "reason": reason,
            "restores": not as_is,
        }
        new = RunSetup(run.data["plan"], starting, checkpoint.done)
        return start_run(self.records, opened, new, f"{reason} of {run.id}")

    def _run(self, opened: Record[WorkspaceData], number: int) -> Record[RunData]:
        try:
            return self.records.views.record(f"{opened.id}/{number}")
        except UnknownRecordError:
            raise RunRefusedError(f"there is no run {number} in {opened.data['folder']}") from None

    def _last_codon_status(self, run_id: str) -> dict[str, Any]:
        found = self.codons(run_id)
        if not found:
            return {}
        last = found[-1]
        return {"last_codon_status": last.data.get("failed_during", last.state)}
