"""An export or its backup is complete at any time, also when its writer is killed."""

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
from interlock.systems.runs.archive.archive import BrokenArchiveError, archive_bytes, read_archive
from interlock.systems.runs.archive.export import ExportError, read_export
from interlock.systems.runs.archive.findings import Fault
from tests.systems.runs.workspaces import COST, SENTINEL_COST, StoredWorkspace

# Replaces a first content by a second one, and kills itself at each of its calls in turn.
KILLED = """
import os, signal, sys
from pathlib import Path
from interlock.systems.runs.archive import backup
root, *files = map(Path, sys.argv[1:])
first, second = (file.read_bytes() for file in files)
names = ("open", "write", "fsync", "close", "replace")
calls = {name: getattr(os, name) for name in names}

def attempt(file, last_call):
    made = 0
    def counted(name):
        def call(*arguments, **options):
            nonlocal made
            made += 1
            if made == last_call:
                if name == "write":
                    calls["write"](arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return calls[name](*arguments, **options)
        return call
    class Counted:
        def __getattr__(self, name):
            return counted(name) if name in names else getattr(os, name)
    backup.os = Counted()
    backup.write_with_backup(file, second, is_complete=lambda _: True)
    return made

total = 0
for last_call in range(1, 100):
    file = root / str(last_call) / "runs.json"
    file.parent.mkdir()
    file.write_bytes(first)
    child = os.fork()
    if child == 0:
        attempt(file, last_call)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
    total = last_call
print(total)
"""


def export(workspace: StoredWorkspace, name: str = "runs.json") -> Path:
    file = workspace.home.parent / name
    workspace.runs.export(workspace.folder, file)
    return file


def tear(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-200])


def change_export(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change an export, and give it the digest that fits."""
    archive = json.loads(file.read_bytes())
    change(archive)
    del archive["digest"]
    text = json.dumps(archive, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    file.write_text(json.dumps({**archive, "digest": digest}, ensure_ascii=False))


def test_an_export_holds_every_record_with_its_whole_log_and_reads_back_the_same(
    workspace: StoredWorkspace,
) -> None:
    first, second = workspace.completed_run(2), workspace.completed_run()
    ids = [workspace.id, first, second, f"{first}/1", f"{first}/2", f"{second}/1"]

    done = workspace.runs.export(workspace.folder, workspace.home.parent / "runs.json")

    assert (done.records, done.warnings) == (6, ())
    found = read_export(done.file, MACHINES)
    assert (found.source, found.warnings) == (done.file, ())
    assert [one.record.id for one in found.archive.records] == ids
    for archived in found.archive.records:
        assert list(archived.kept.lines) == workspace.world.views.history(archived.record.id)
        stored = workspace.world.record(archived.record.id)
        assert archived.record.data == stored.data
        assert archived.record.counters == stored.counters
    assert found.archive.commits == tuple(
        workspace.world.views.family_log(workspace.id, "0-0", 1_000)
    )
    assert read_archive(archive_bytes(found.archive)) == found.archive
    assert found.archive.records[0].record.counters == {
        "tree.cost": COST * 4,
        "tree.spent": COST * 4 + 3 * SENTINEL_COST,
    }


def test_an_export_is_only_its_owners_to_read(workspace: StoredWorkspace) -> None:
    workspace.completed_run()
    assert export(workspace).stat().st_mode & 0o777 == 0o600


def test_the_old_content_becomes_the_backup(workspace: StoredWorkspace) -> None:
    workspace.completed_run()
    before = export(workspace).read_bytes()
    workspace.completed_run()

    file = export(workspace)

    assert len(read_archive(file.read_bytes()).runs) == 2
    assert file.with_name("runs.json.bak").read_bytes() == before
    assert not file.with_name("runs.json.tmp").exists()


def test_nothing_is_exported_while_a_run_is_running(workspace: StoredWorkspace) -> None:
    workspace.completed_run()
    file = export(workspace)
    before = file.read_bytes()
    run = workspace.start_run()
    workspace.codon(run, upto="running")

    with pytest.raises(ExportError, match=f"run {run}"):
        export(workspace)
    assert file.read_bytes() == before


def test_nothing_is_exported_while_an_event_is_not_read(workspace: StoredWorkspace) -> None:
    run = workspace.completed_run()
    event = {"type": "RunCompleted", "data": {"run_id": run}}
    workspace.records.dispatch.lifecycle.post(workspace.id, {"sender": "s", "event": event}, "op")

    with pytest.raises(ExportError, match="not read yet"):
        export(workspace)


def test_a_damaged_record_takes_no_good_exports_place(workspace: StoredWorkspace) -> None:
    run = workspace.completed_run()
    file = export(workspace)
    before = file.read_bytes()
    workspace.write_field(f"{run}/1", "data", "{torn")

    with pytest.raises(ExportError, match=f"corrupted_data at {run}/1"):
        export(workspace)
    assert file.read_bytes() == before
    assert not file.with_name("runs.json.bak").exists()


def test_a_torn_export_is_read_from_its_backup_with_a_warning(workspace: StoredWorkspace) -> None:
    workspace.completed_run()
    export(workspace)
    file = export(workspace)
    tear(file)

    found = read_export(file, MACHINES)

    assert found.source == file.with_name("runs.json.bak")
    assert len(found.archive.runs) == 1
    assert "not complete JSON" in found.warnings[0]
    assert str(found.source) in found.warnings[0]


def test_two_torn_files_are_both_named_and_nothing_is_returned(
    workspace: StoredWorkspace,
) -> None:
    workspace.completed_run()
    export(workspace)
    file = export(workspace)
    backup = file.with_name("runs.json.bak")
    tear(file)
    backup.write_text("{}")
    with pytest.raises(ExportError) as refusal:
        read_export(file, MACHINES)
    assert f"{file}: it is not complete JSON" in str(refusal.value)
    assert f"{backup}: it has version None" in str(refusal.value)

    file.unlink()
    backup.unlink()
    with pytest.raises(ExportError, match="No such file"):
        read_export(file, MACHINES)


def test_a_torn_export_takes_no_good_backups_place(workspace: StoredWorkspace) -> None:
    workspace.completed_run()
    export(workspace)
    file = export(workspace)
    backup = file.with_name("runs.json.bak")
    good = backup.read_bytes()
    tear(file)

    done = workspace.runs.export(workspace.folder, file)

    assert backup.read_bytes() == good
    assert "was no complete export" in done.warnings[0]
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
    ("change", "problem"),
    [
        (cost, "does not fold"),
        (total, "tree.cost is 1 and should be 500"),
        (hole, "it is missing, but its codons"),
        (running, "it is running"),
        (unknown, "the log leads to"),
        (foreign, "another/1 is no record of"),
        (shape, "records.1.log.0.at_ms"),
    ],
)
def test_an_export_that_does_not_follow_from_its_logs_is_not_read(
    workspace: StoredWorkspace, change: Callable[[dict[str, Any]], None], problem: str
) -> None:
    workspace.completed_run()
    file = export(workspace)
    change_export(file, change)

    with pytest.raises(ExportError, match=problem):
        read_export(file, MACHINES)
    found = workspace.runs.validate_export(file)
    assert not found.valid
    assert problem in found.errors[0].message


def test_one_changed_letter_is_found(workspace: StoredWorkspace) -> None:
    workspace.completed_run()
    content = export(workspace).read_bytes()
    with pytest.raises(BrokenArchiveError, match="digest"):
        read_archive(content.replace(b'"session_id":"s"', b'"session_id":"t"', 1))


def test_an_export_has_the_same_findings_as_a_store(workspace: StoredWorkspace) -> None:
    workspace.completed_run()
    export(workspace)
    file = export(workspace)
    assert workspace.runs.validate_export(file, workspace.folder).valid

    (workspace.checkpoint_store.store / "refs/heads/run-1").unlink()
    found = workspace.runs.validate_export(file, workspace.folder)
    assert {one.type for one in found.errors} == {Fault.MISSING_CHECKPOINT}
    assert workspace.runs.validate_export(file).valid, (
        "without a folder checkpoints are not validated"
    )

    tear(file)
    found = workspace.runs.validate_export(file)
    assert [one.type for one in found.errors] == [Fault.CORRUPTED_DATA]
    assert "its backup" in found.errors[0].message
    assert "is usable" in found.errors[0].message


def test_whenever_its_writer_is_killed_the_file_or_its_backup_is_complete(
    workspace: StoredWorkspace, tmp_path: Path
) -> None:
    workspace.completed_run()
    first = export(workspace, "first.json")
    workspace.completed_run()
    second = export(workspace, "second.json")
    contents = {first.read_bytes(), second.read_bytes()}
    root = tmp_path / "killed"
    root.mkdir()
    program = [sys.executable, "-c", KILLED, str(root), str(first), str(second)]

    done = subprocess.run(program, check=True, capture_output=True, env={**os.environ})

    steps = int(done.stdout)
    # Two files, each opened, written, synced, closed and renamed, and its folder synced.
    assert steps == 16
    sources = []
    for step in range(1, steps + 1):
        file = root / str(step) / "runs.json"
        found = read_export(file, MACHINES)
        assert found.source.read_bytes() in contents
        assert file.read_bytes() in contents, "the file itself is never torn"
        sources.append(file.read_bytes() == second.read_bytes())
        backup = file.with_name("runs.json.bak")
        assert not backup.exists() or backup.read_bytes() == first.read_bytes()
    assert sources == sorted(sources)
    assert (sources[0], sources[-1]) == (False, True)
