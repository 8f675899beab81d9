"""`interlock plan` and `apply` on the store of an `interlock up` that has ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from interlock import Data, Workflow
from interlock.workers.cli import app
from interlock.workers.engine.table_check import check_tables
from interlock.workers.gateways.server import EmbeddedServer
from tests.workflow.at_work import AtWork, registered


class Refund(Data):
    order: str


def version(asking: str, renamed: dict[str, str] | None = None) -> Workflow[Refund]:
    refund = Workflow("refund", Refund, renamed=renamed)
    refund.ask(asking, "Refund {order}?", approve="done", stop="done")
    refund.ends(done=True)
    return refund


def run(*words: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, words)
    return ended.exit_code, " ".join(ended.output.split())


def test_a_change_is_planned_and_applied_where_up_has_ended(
    tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path))
    monkeypatch.setenv("INTERLOCK_PREFIX", prefix)
    assert "nothing runs in" in run("plan")[1]
    old = version("asking")
    with EmbeddedServer(tmp_path / "store") as server, registered(old):
        worker = AtWork(server.url, prefix, old)
        check_tables(worker.client.dispatch, applied_by="worker")
        worker.client.submit({"order": "o-1"}, machine="refund", id="r-1")

    with registered(version("approval")):
        refused = run("plan")
    with registered(version("approval", renamed={"asking": "approval"})):
        planned, applied, again = run("plan"), run("apply"), run("plan")

    assert refused[0] == 1
    assert "1 record is stranded: say renamed={'asking': ...}" in refused[1]
    assert planned[0] == 0
    assert "1 record is moved: each goes on with its question" in planned[1]
    assert applied == (0, "1 of refund: moved")
    assert again == (0, "nothing changes for the records that there are")
