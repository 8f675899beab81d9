"""An export is one file that is whole, or has a backup that is; whoever is killed while writing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.machines import MACHINES
from interlock.workers.runs.archive.archive import BrokenArchiveError, read_archive, written
from interlock.workers.runs.archive.export import ExportError, read_export
from interlock.workers.runs.archive.findings import Fault
from tests.workers.runs.workspaces import COST, WATCHED, Scene

# Writes a second content over a first one, and kills itself at each call that it makes, in turn.
KILLED = """
import os, signal, sys
from pathlib import Path
from interlock.workers.files import durable
root, *files = map(Path, sys.argv[1:])
first, second = (file.read_bytes() for file in files)
names = ("open", "write", "fsync", "close", "replace")
calls = {name: getattr(os, name) for name in names}

def attempt(place, at):
    made = 0
    def counted(name):
        def call(*given, **more):
            nonlocal made
            made += 1
            if made == at:
                if name == "write":
                    calls["write"](given[0], bytes(given[1])[: len(given[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return calls[name](*given, **more)
        return call
    class Counted:
        def __getattr__(self, name):
            return counted(name) if name in names else getattr(os, name)
    durable.os = Counted()
    durable.write_kept(place, second, is_whole=lambda _: True)
    return made

total = 0
for at in range(1, 100):
    place = root / str(at) / "runs.json"
    place.parent.mkdir()
    place.write_bytes(first)
    child = os.fork()
    if child == 0:
        attempt(place, at)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
    total = at
print(total)
"""


def exported(scene: Scene, name: str = "runs.json") -> Path:
    file = scene.home.parent / name
    scene.runs.export(scene.folder, file)
    return file


def torn(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-200])


def changed(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change an export as somebody could who knows how its digest is made."""
    archive = json.loads(file.read_bytes())
    change(archive)
    del archive["digest"]
    text = json.dumps(archive, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    file.write_text(json.dumps({**archive, "digest": digest}, ensure_ascii=False))


def test_an_export_holds_every_record_with_its_whole_log_and_reads_back_the_same(
    scene: Scene,
) -> None:
    first, second = scene.ended(2), scene.ended()
    ids = [scene.id, first, second, f"{first}/1", f"{first}/2", f"{second}/1"]

    done = scene.runs.export(scene.folder, scene.home.parent / "runs.json")

    assert (done.records, done.warnings) == (6, ())
    found = read_export(done.file, MACHINES)
    assert (found.source, found.warnings) == (done.file, ())
    assert [one.record.id for one in found.archive.pasts] == ids
    for past in found.archive.pasts:
        assert list(past.kept.lines) == scene.world.views.history(past.record.id)
        stored = scene.world.record(past.record.id)
        assert past.record.data == stored.data
        assert past.record.counters == stored.counters
    assert found.archive.commits == tuple(scene.world.views.chronicle(scene.id, "0-0", 1_000))
    assert read_archive(written(found.archive)) == found.archive
    assert found.archive.pasts[0].record.counters == {
        "tree.cost": COST * 4,
        "tree.spent": COST * 4 + 3 * WATCHED,
    }


def test_an_export_is_only_its_owners_to_read(scene: Scene) -> None:
    scene.ended()
    assert exported(scene).stat().st_mode & 0o777 == 0o600


def test_what_was_there_becomes_the_backup(scene: Scene) -> None:
    scene.ended()
    before = exported(scene).read_bytes()
    scene.ended()

    file = exported(scene)

    assert len(read_archive(file.read_bytes()).runs) == 2
    assert file.with_name("runs.json.bak").read_bytes() == before
    assert not file.with_name("runs.json.tmp").exists()


def test_nothing_is_exported_while_a_run_is_at_work(scene: Scene) -> None:
    scene.ended()
    file = exported(scene)
    before = file.read_bytes()
    run = scene.begin()
    scene.codon(run, upto="running")

    with pytest.raises(ExportError, match=f"run {run}"):
        exported(scene)
    assert file.read_bytes() == before


def test_nothing_is_exported_while_an_event_is_not_read(scene: Scene) -> None:
    run = scene.ended()
    event = {"type": "RunCompleted", "data": {"run_id": run}}
    scene.dispatch.post(scene.id, {"sender": "s", "event": event}, "op")

    with pytest.raises(ExportError, match="not read yet"):
        exported(scene)


def test_a_damaged_record_takes_no_good_exports_place(scene: Scene) -> None:
    run = scene.ended()
    file = exported(scene)
    before = file.read_bytes()
    scene.field(f"{run}/1", "data", "{torn")

    with pytest.raises(ExportError, match=f"corrupted_data at {run}/1"):
        exported(scene)
    assert file.read_bytes() == before
    assert not file.with_name("runs.json.bak").exists()


def test_a_torn_export_is_read_from_its_backup_and_that_is_said(scene: Scene) -> None:
    scene.ended()
    exported(scene)
    file = exported(scene)
    torn(file)

    found = read_export(file, MACHINES)

    assert found.source == file.with_name("runs.json.bak")
    assert len(found.archive.runs) == 1
    assert "torn" in found.warnings[0]
    assert str(found.source) in found.warnings[0]


def test_without_a_whole_one_both_are_named_and_nothing_is_returned(scene: Scene) -> None:
    scene.ended()
    exported(scene)
    file = exported(scene)
    backup = file.with_name("runs.json.bak")
    torn(file)
    backup.write_text("{}")
    with pytest.raises(ExportError) as refusal:
        read_export(file, MACHINES)
    assert f"{file}: it is no JSON, or torn" in str(refusal.value)
    assert f"{backup}: it has version None" in str(refusal.value)

    file.unlink()
    backup.unlink()
    with pytest.raises(ExportError, match="No such file"):
        read_export(file, MACHINES)


def test_a_torn_export_takes_no_good_backups_place(scene: Scene) -> None:
    scene.ended()
    exported(scene)
    file = exported(scene)
    backup = file.with_name("runs.json.bak")
    good = backup.read_bytes()
    torn(file)

    done = scene.runs.export(scene.folder, file)

    assert backup.read_bytes() == good
    assert "was no whole export" in done.warnings[0]
    assert read_export(file, MACHINES).source == file


def cost(archive: dict[str, Any]) -> None:
    archive["records"][2]["log"][-1]["event"]["payload"]["checkpoint_sha"] = "other"


def total(archive: dict[str, Any]) -> None:
    archive["records"][0]["counters"]["tree.cost"] = 1


def hole(archive: dict[str, Any]) -> None:
    del archive["records"][1]


def running(archive: dict[str, Any]) -> None:
    record = archive["records"][1]
    record["log"] = [line for line in record["log"] if line["position"] < "3"]
    data = {name: value for name, value in record["data"].items() if name != "ended"}
    first = int(record["log"][0]["at_ms"])
    record |= {"version": 2, "entered": 1, "state": "running", "data": data, "since_ms": first}


def unknown(archive: dict[str, Any]) -> None:
    archive["records"][2] |= {"data": {**archive["records"][2]["data"], "final_cost": "much"}}


def foreign(archive: dict[str, Any]) -> None:
    archive["records"][1]["id"] = "another/1"


def shape(archive: dict[str, Any]) -> None:
    archive["records"][1]["log"][0]["at_ms"] = "soon"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (cost, "does not fold"),
        (total, "tree.cost is 1 and should be 500"),
        (hole, "it is not there, but its codons"),
        (running, "it is running"),
        (unknown, "the log leads to"),
        (foreign, "another/1 is no record of"),
        (shape, "records.1.log.0.at_ms"),
    ],
)
def test_an_export_that_does_not_follow_from_its_logs_is_not_read(
    scene: Scene, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    scene.ended()
    file = exported(scene)
    changed(file, change)

    with pytest.raises(ExportError, match=said):
        read_export(file, MACHINES)
    found = scene.runs.validate_export(file)
    assert not found.valid
    assert said in found.errors[0].message


def test_one_changed_letter_is_found(scene: Scene) -> None:
    scene.ended()
    content = exported(scene).read_bytes()
    with pytest.raises(BrokenArchiveError, match="digest"):
        read_archive(content.replace(b'"session_id":"s"', b'"session_id":"t"', 1))


def test_an_export_is_validated_in_the_same_words(scene: Scene) -> None:
    scene.ended()
    exported(scene)
    file = exported(scene)
    assert scene.runs.validate_export(file, scene.folder).valid

    (scene.shadow.store / "refs/heads/run-1").unlink()
    found = scene.runs.validate_export(file, scene.folder)
    assert {one.type for one in found.errors} == {Fault.MISSING_CHECKPOINT}
    assert scene.runs.validate_export(file).valid, "without a folder nobody looks for checkpoints"

    torn(file)
    found = scene.runs.validate_export(file)
    assert [one.type for one in found.errors] == [Fault.CORRUPTED_DATA]
    assert "its backup" in found.errors[0].message
    assert "reads back whole" in found.errors[0].message


def test_whenever_its_writer_is_killed_the_file_or_its_backup_is_whole(
    scene: Scene, tmp_path: Path
) -> None:
    scene.ended()
    first = exported(scene, "first.json")
    scene.ended()
    second = exported(scene, "second.json")
    contents = {first.read_bytes(), second.read_bytes()}
    root = tmp_path / "killed"
    root.mkdir()
    program = [sys.executable, "-c", KILLED, str(root), str(first), str(second)]

    done = subprocess.run(program, check=True, capture_output=True, env={**os.environ})

    steps = int(done.stdout)
    # Two files, each opened, written, synced, closed and renamed, and its folder synced.
    assert steps == 16
    sources = []
    for at in range(1, steps + 1):
        file = root / str(at) / "runs.json"
        found = read_export(file, MACHINES)
        assert found.source.read_bytes() in contents
        assert file.read_bytes() in contents, "what has the name is never torn"
        sources.append(file.read_bytes() == second.read_bytes())
        backup = file.with_name("runs.json.bak")
        assert not backup.exists() or backup.read_bytes() == first.read_bytes()
    assert sources == sorted(sources)
    assert (sources[0], sources[-1]) == (False, True)
