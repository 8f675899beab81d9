"""What a store lost comes back from an export as it was; what is there is never replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.kernel.machines import MACHINES
from interlock.kernel.record import partition_of
from interlock.kernel.restoration import HOLDER, Kept, Restoration, RestoreRefusedError
from interlock.kernel.store import repairs, restores, scripts
from interlock.kernel.store.scripts import read
from interlock.workers.cli import app
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.inspection import verify_all
from interlock.workers.runs.archive.export import ExportError
from interlock.workers.runs.archive.importing import ImportRefusedError
from interlock.workers.runs.start import RunRefusedError
from tests.kernel.store.contents import contents
from tests.kernel.store.machines_runs import EVENTS
from tests.races.in_process_worker import LostError
from tests.workers.runs.workspaces import COST, Scene


def exported(scene: Scene) -> Path:
    file = scene.home.parent / "runs.json"
    scene.runs.export(scene.folder, file)
    return file


def everything(scene: Scene) -> dict[str, Any]:
    """Return all that is to be seen of a workspace; what an import notes aside."""
    views, root = scene.world.views, scene.id
    found = scene.dispatch.views.records([root, *(f"{root}/{n}" for n in (1, 2))])
    codons = [one for run in (1, 2) for one in scene.runs.codons(f"{root}/{run}")]
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
        "births": views.births(records),
        "chronicle": views.chronicle(root, "0-0", 1_000),
        "heard": scene.runs.heard(scene.runs.workspace(scene.folder)),
        "holds": views.holds(root),
        "costs": scene.runs.costs(scene.folder, since=2),
        "checkpoints": scene.runs.checkpoints(scene.folder),
        "ended": {
            of: read(scene.world.client, "ZSCORE", scene.world.keys.ended(partition_of(of)), of)
            for of in records
        },
    }


class Calls:
    """Counts the scripts of an import; after so many of them who imports is gone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made, self.last = 0, -1
        for module in (restores, repairs):
            monkeypatch.setattr(module, "call", self._call)

    def _call(self, client: Any, name: str, keys: list[str], args: list[Any]) -> Any:
        if self.made == self.last:
            raise LostError
        self.made += 1
        return scripts.call(client, name, keys, args)


def test_a_lost_store_gets_back_what_it_had(scene: Scene) -> None:
    scene.ended(2)
    scene.ended()
    before = everything(scene)
    file = exported(scene)
    scene.lose()

    done = scene.runs.import_(file, scene.folder)

    assert (done.written, done.there, done.warnings) == (6, 0, ())
    assert everything(scene) == before
    assert scene.validate().valid, scene.validate()
    assert verify_all(scene.dispatch, None)["faults"] == []
    assert [one.kind for one in scene.world.notes(scene.id)] == ["imported"]


def test_what_came_back_is_gone_on_with(scene: Scene) -> None:
    first = scene.ended()
    file = exported(scene)
    sha = scene.world.record(f"{first}/1").data["completion_checkpoint"]
    scene.lose()
    scene.runs.import_(file, scene.folder)

    run = scene.runs.rollback(scene.folder, "last-success")

    assert run.id == f"{scene.id}/2"
    assert run.data["starting"]["source"]["checkpoint_sha"] == sha
    assert run.data["before"]["cost"] == COST
    assert [one.position for one in scene.runs.heard(scene.open())] == sorted(
        one.position for one in scene.runs.heard(scene.open())
    )
    assert scene.validate().valid


def test_mail_after_an_import_comes_after_what_was_read_before_it(scene: Scene) -> None:
    run = scene.ended()
    ahead = f"{scene.world.views.now_ms() + 10**9}-0"
    scene.world.fire(scene.id, "event_read", {"upto": ahead}, warrant=EVENTS)
    file = exported(scene)
    scene.lose()
    scene.runs.import_(file, scene.folder)

    event = {"type": "RunCompleted", "data": {"run_id": run}}
    scene.dispatch.post(scene.id, {"sender": "s", "event": event}, "op")

    unread = scene.dispatch.inboxes.after(scene.id, ahead, 10)
    assert [one.said["event"]["type"] for one in unread] == ["RunCompleted"]
    assert len(scene.dispatch.inboxes.after(scene.id, "0-0", 10)) == 1


def test_an_import_that_breaks_off_anywhere_is_repeated_and_keeps_others_out_until_then(
    scene: Scene,
) -> None:
    scene.ended(2)
    scene.ended()
    before = everything(scene)
    file = exported(scene)
    # Each record, the chronicle, the end.
    for last in range(8):
        scene.lose()
        with pytest.MonkeyPatch.context() as patched:
            calls = Calls(patched)
            calls.last = last
            with pytest.raises(LostError):
                scene.runs.import_(file, scene.folder)
        if last:
            with pytest.raises(RunRefusedError, match=HOLDER):
                scene.begin()
            interrupted = scene.validate(repair=True)
            assert any("repeat it" in one.message for one in interrupted.errors)

        done = scene.runs.import_(file, scene.folder)

        assert done.there == min(last, 6)
        assert done.written == 6 - done.there
        assert everything(scene) == before


def test_mail_that_is_read_while_an_import_is_broken_off_does_not_stop_it(scene: Scene) -> None:
    scene.ended()
    file = exported(scene)
    scene.lose()
    with pytest.MonkeyPatch.context() as patched:
        Calls(patched).last = 1
        with pytest.raises(LostError):
            scene.runs.import_(file, scene.folder)
    scene.world.fire(scene.id, "event_read", {"upto": "5-0"}, warrant=EVENTS)

    assert scene.runs.import_(file, scene.folder).there == 1
    assert scene.validate().valid


def test_a_workspace_that_is_there_is_never_replaced(scene: Scene) -> None:
    scene.ended()
    file = exported(scene)
    scene.ended()
    before = contents(scene.world)

    with pytest.raises(ImportRefusedError, match="already, and nothing of it"):
        scene.runs.import_(file, scene.folder)
    assert contents(scene.world) == before


def test_an_export_comes_back_for_its_own_folder_and_machine_only(
    scene: Scene, tmp_path: Path
) -> None:
    scene.ended()
    file = exported(scene)
    scene.lose()

    with pytest.raises(ImportRefusedError, match="put the folder there"):
        scene.runs.import_(file, tmp_path)
    assert scene.world.dump() == {}


def test_a_torn_export_comes_back_from_its_backup_and_a_bad_one_not_at_all(scene: Scene) -> None:
    scene.ended()
    exported(scene)
    file = exported(scene)
    scene.lose()
    file.write_text("{")
    backup = file.with_name("runs.json.bak")
    kept = backup.read_bytes()
    backup.write_text("{")
    with pytest.raises(ExportError):
        scene.runs.import_(file, scene.folder)
    assert scene.world.dump() == {}, "nothing is replaced by an empty state"

    backup.write_bytes(kept)
    done = scene.runs.import_(file, scene.folder)
    assert (done.source, len(done.warnings)) == (backup, 1)
    assert scene.validate().valid


def test_what_was_forgotten_on_purpose_does_not_come_back(scene: Scene) -> None:
    scene.ended()
    file = exported(scene)
    scene.lose()
    read(scene.world.client, "SET", scene.world.keys.tombstone(scene.id), "gone")

    with pytest.raises(RestoreRefusedError, match="on purpose"):
        scene.runs.import_(file, scene.folder)


def test_the_kernel_takes_no_log_that_does_not_fold_and_nothing_that_is_at_work(
    scene: Scene,
) -> None:
    scene.ended()
    root = scene.id
    running = scene.begin()
    lines = tuple(scene.world.views.history(running))
    births = scene.world.views.births([running, root])
    born = tuple(scene.world.views.history(root))
    scene.lose()
    store = Restoration(scene.world.client, scene.world.keys, MACHINES, name="run")
    with pytest.raises(RestoreRefusedError, match="at work"):
        store.restore(Kept(running, "run", births[running], lines))
    for bad, why in (((), "does not fold"), ((*born, *born), "stands after")):
        with pytest.raises(RestoreRefusedError, match=why):
            store.restore(Kept(root, "workspace", births[root], bad))
    with pytest.raises(RestoreRefusedError, match="no digest"):
        store.restore(Kept(root, "workspace", "?", born))
    assert scene.world.dump() == {}


def test_at_the_command_line(
    scene: Scene, server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix, "HOME": scene.home}
    for name, value in given.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", str(value))
    monkeypatch.chdir(scene.folder)
    typed = CliRunner()

    def run(*words: str, code: int = 0) -> str:
        done = typed.invoke(app, ["run", *words])
        assert done.exit_code == code, done.output
        return " ".join(done.output.split())

    scene.ended()
    assert "valid" in run("validate")
    assert "3 records are in" in run("export", "../runs.json")
    scene.counter(scene.id, "tree.cost", 7)
    found = json.loads(run("validate", "--json", code=1))
    assert [one["type"] for one in found["errors"]] == ["cost_mismatch"]
    assert not found["valid"]
    assert "tree.cost is 7 and should be 500" in run("validate", code=1)
    assert "repaired" in run("validate", "--repair")
    scene.lose()
    assert "no run began" in run("validate", code=1)
    assert "valid" in run("validate", "--file", "../runs.json", "--workspace", ".")
    assert "3 records were brought back" in run("import", "../runs.json")
    assert "valid" in run("validate")
    assert "already" in run("import", "../runs.json", code=1)
    Path("../runs.json").write_text("{")
    assert "torn" in run("validate", "--file", "../runs.json", code=1)
