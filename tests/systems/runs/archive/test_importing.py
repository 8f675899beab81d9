"""An import restores the records that a store lost, and never replaces existing ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.kernel.machines import MACHINES
from interlock.kernel.record import partition_of
from interlock.kernel.restoration import LoggedRecord, Restoration, RestoreRefusedError
from interlock.kernel.store import repairs, restores, scripts
from interlock.kernel.store.scripts import read
from interlock.systems.runs.admission import InvalidStateError
from interlock.systems.runs.archive.export import ExportError
from interlock.systems.runs.archive.importing import ImportRefusedError
from interlock.workers.cli import app
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.verify import verify_all
from tests.kernel.store.contents import contents
from tests.kernel.store.machines_runs import EVENTS
from tests.races.in_process_worker import LostError
from tests.systems.runs.workspaces import COST, StoredWorkspace


def export(workspace: StoredWorkspace) -> Path:
    file = workspace.home.parent / "runs.json"
    workspace.runs.export(workspace.folder, file)
    return file


def everything(workspace: StoredWorkspace) -> dict[str, Any]:
    """Return all that the store shows of a workspace, without the note of an import."""
    client, keys = workspace.world.client, workspace.world.keys
    views, root = workspace.world.views, workspace.id
    found = workspace.records.views.records([root, *(f"{root}/{n}" for n in (1, 2))])
    codons = [one for run in (1, 2) for one in workspace.runs.codons(f"{root}/{run}")]
    records = {str(one.id): one for one in (*found.values(), *codons)}
    logs = {
        of: [one for one in views.history(of) if getattr(one, "kind", "") != "imported"]
        for of in records
    }
    timers = {of: [timer.name for timer in one.timers] for of, one in records.items()}
    stored = {
        of: (one.state, one.version, one.entered, one.data, one.since_ms, one.created_ms)
        for of, one in records.items()
    }
    return {
        "stored": stored,
        "counters": {of: {k: v for k, v in r.counters.items() if v} for of, r in records.items()},
        "logs": logs,
        "timers": timers,
        "births": views.creation_digests(records),
        "family_log": views.family_log(root, "0-0", 1_000),
        "events": workspace.runs.events_after(workspace.runs.workspace(workspace.folder)),
        "holds": views.holds(root),
        "costs": workspace.runs.costs(workspace.folder, since=2),
        "checkpoints": workspace.runs.checkpoints(workspace.folder),
        "ended": {
            of: read(client, "ZSCORE", keys.ended_index(partition_of(of)), of) for of in records
        },
    }


class Calls:
    """Counts the scripts of an import, and interrupts it before a chosen one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made, self.last = 0, -1
        for module in (restores, repairs):
            monkeypatch.setattr(module, "call", self._call)

    def _call(self, client: Any, name: str, keys: Any, plan: Any) -> Any:
        if self.made == self.last:
            raise LostError
        self.made += 1
        return scripts.call(client, name, keys, plan)


def test_a_lost_store_gets_back_what_it_had(workspace: StoredWorkspace) -> None:
    workspace.completed_run(2)
    workspace.completed_run()
    before = everything(workspace)
    file = export(workspace)
    workspace.delete_store()

    done = workspace.runs.import_(file, workspace.folder)

    assert (done.written, done.existing, done.warnings) == (6, 0, ())
    assert everything(workspace) == before
    assert workspace.validate().valid, workspace.validate()
    assert verify_all(workspace.records.dispatch, None)["faults"] == []
    assert [one.kind for one in workspace.world.notes(workspace.id)] == ["imported"]


def test_what_came_back_is_gone_on_with(workspace: StoredWorkspace) -> None:
    first = workspace.completed_run()
    file = export(workspace)
    sha = workspace.world.record(f"{first}/1").data["completion_checkpoint"]
    workspace.delete_store()
    workspace.runs.import_(file, workspace.folder)

    run = workspace.runs.rollback(workspace.folder, "last-success")

    assert run.id == f"{workspace.id}/2"
    assert run.data["starting"]["source"]["checkpoint_sha"] == sha
    assert run.data["before"]["cost"] == COST
    assert [one.position for one in workspace.runs.events_after(workspace.open())] == sorted(
        one.position for one in workspace.runs.events_after(workspace.open())
    )
    assert workspace.validate().valid


def test_mail_after_an_import_comes_after_what_was_read_before_it(
    workspace: StoredWorkspace,
) -> None:
    run = workspace.completed_run()
    ahead = f"{workspace.world.views.now_ms() + 10**9}-0"
    workspace.world.fire(workspace.id, "event_read", {"upto": ahead}, warrant=EVENTS)
    file = export(workspace)
    workspace.delete_store()
    workspace.runs.import_(file, workspace.folder)

    event = {"type": "RunCompleted", "data": {"run_id": run}}
    workspace.records.dispatch.lifecycle.post(workspace.id, {"sender": "s", "event": event}, "op")

    unread = workspace.records.inboxes.after(workspace.id, ahead, 10)
    assert [one.fields["event"]["type"] for one in unread] == ["RunCompleted"]
    assert len(workspace.records.inboxes.after(workspace.id, "0-0", 10)) == 1


def test_an_import_that_breaks_off_anywhere_is_repeated_and_keeps_others_out_until_then(
    workspace: StoredWorkspace,
) -> None:
    workspace.completed_run(2)
    workspace.completed_run()
    before = everything(workspace)
    file = export(workspace)
    # Each record, the family log, the end.
    for last in range(8):
        workspace.delete_store()
        with pytest.MonkeyPatch.context() as patched:
            calls = Calls(patched)
            calls.last = last
            with pytest.raises(LostError):
                workspace.runs.import_(file, workspace.folder)
        if last:
            with pytest.raises(InvalidStateError, match="an import of its runs was interrupted"):
                workspace.start_run()
            interrupted = workspace.validate(repair=True)
            assert any("repeat it" in one.message for one in interrupted.errors)

        done = workspace.runs.import_(file, workspace.folder)

        assert done.existing == min(last, 6)
        assert done.written == 6 - done.existing
        assert everything(workspace) == before


def test_mail_that_is_read_while_an_import_is_broken_off_does_not_stop_it(
    workspace: StoredWorkspace,
) -> None:
    workspace.completed_run()
    file = export(workspace)
    workspace.delete_store()
    with pytest.MonkeyPatch.context() as patched:
        Calls(patched).last = 1
        with pytest.raises(LostError):
            workspace.runs.import_(file, workspace.folder)
    workspace.world.fire(workspace.id, "event_read", {"upto": "5-0"}, warrant=EVENTS)

    assert workspace.runs.import_(file, workspace.folder).existing == 1
    assert workspace.validate().valid


def test_a_workspace_that_is_there_is_never_replaced(workspace: StoredWorkspace) -> None:
    workspace.completed_run()
    file = export(workspace)
    workspace.completed_run()
    before = contents(workspace.world)

    with pytest.raises(ImportRefusedError, match="already, so nothing was imported"):
        workspace.runs.import_(file, workspace.folder)
    assert contents(workspace.world) == before


def test_an_export_comes_back_for_its_own_folder_and_computer_only(
    workspace: StoredWorkspace, tmp_path: Path
) -> None:
    workspace.completed_run()
    file = export(workspace)
    workspace.delete_store()

    with pytest.raises(ImportRefusedError, match="put the folder there"):
        workspace.runs.import_(file, tmp_path)
    assert workspace.world.dump() == {}


def test_a_torn_export_comes_back_from_its_backup_and_a_bad_one_not_at_all(
    workspace: StoredWorkspace,
) -> None:
    workspace.completed_run()
    export(workspace)
    file = export(workspace)
    workspace.delete_store()
    file.write_text("{")
    backup = file.with_name("runs.json.bak")
    kept = backup.read_bytes()
    backup.write_text("{")
    with pytest.raises(ExportError):
        workspace.runs.import_(file, workspace.folder)
    assert workspace.world.dump() == {}, "nothing is replaced by an empty state"

    backup.write_bytes(kept)
    done = workspace.runs.import_(file, workspace.folder)
    assert (done.source, len(done.warnings)) == (backup, 1)
    assert workspace.validate().valid


def test_what_was_forgotten_on_purpose_does_not_come_back(workspace: StoredWorkspace) -> None:
    workspace.completed_run()
    file = export(workspace)
    workspace.delete_store()
    read(workspace.world.client, "SET", workspace.world.keys.tombstone(workspace.id), "gone")

    with pytest.raises(RestoreRefusedError, match="was pruned from this store"):
        workspace.runs.import_(file, workspace.folder)


def test_the_kernel_takes_no_log_that_does_not_fold_and_nothing_that_is_at_work(
    workspace: StoredWorkspace,
) -> None:
    workspace.completed_run()
    root = workspace.id
    running = workspace.start_run()
    lines = tuple(workspace.world.views.history(running))
    births = workspace.world.views.creation_digests([running, root])
    root_lines = tuple(workspace.world.views.history(root))
    workspace.delete_store()
    store = Restoration(workspace.world.client, workspace.world.keys, MACHINES, name="run")
    with pytest.raises(RestoreRefusedError, match="at work"):
        store.restore(LoggedRecord(running, "run", births[running], lines))
    for bad, why in (((), "does not fold"), ((*root_lines, *root_lines), "comes after")):
        with pytest.raises(RestoreRefusedError, match=why):
            store.restore(LoggedRecord(root, "workspace", births[root], bad))
    with pytest.raises(RestoreRefusedError, match="no digest"):
        store.restore(LoggedRecord(root, "workspace", "?", root_lines))
    assert workspace.world.dump() == {}


def test_at_the_command_line(
    workspace: StoredWorkspace, server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix, "HOME": workspace.home}
    for name, value in given.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", str(value))
    monkeypatch.chdir(workspace.folder)
    typed = CliRunner()

    def run(*words: str, code: int = 0) -> str:
        done = typed.invoke(app, ["run", *words])
        assert done.exit_code == code, done.output
        return " ".join(done.output.split())

    workspace.completed_run()
    assert "valid" in run("validate")
    assert "3 records are in" in run("export", "../runs.json")
    workspace.write_counter(workspace.id, "tree.cost", 7)
    found = json.loads(run("validate", "--json", code=1))
    assert [one["type"] for one in found["errors"]] == ["cost_mismatch"]
    assert not found["valid"]
    assert "tree.cost is 7 and should be 500" in run("validate", code=1)
    assert "repaired" in run("validate", "--repair")
    workspace.delete_store()
    assert "no run started" in run("validate", code=1)
    assert "valid" in run("validate", "--file", "../runs.json", "--workspace", ".")
    assert "3 records were restored" in run("import", "../runs.json")
    assert "valid" in run("validate")
    assert "already" in run("import", "../runs.json", code=1)
    Path("../runs.json").write_text("{")
    assert "not complete JSON" in run("validate", "--file", "../runs.json", code=1)
