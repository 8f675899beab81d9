"""The manifest of a job: what it says, who writes it, and where it is without a directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.event import Cause, Event
from interlock.kernel.machines import MACHINES
from interlock.systems.jobs.brief import brief_of
from interlock.systems.jobs.intake import accept_job
from interlock.systems.jobs.manifest import manifest_now, manifest_of
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from tests.races.in_process_worker import InProcessWorker
from tests.systems.jobs.machines.jobs import PureJob
from tests.systems.jobs.test_graphs import settle


@pytest.mark.parametrize(
    ("payload", "cause", "summary"),
    [
        ({"reason": "no money is left"}, "not now", "no money is left"),
        ({}, "not now", "not now"),
        ({}, "", "it is no longer wanted"),
    ],
)
def test_an_entry_of_the_history_has_the_words_of_its_author_or_of_its_row(
    payload: dict[str, Any], cause: str, summary: str
) -> None:
    case = PureJob.at("pending").fire("cancel", **payload)
    event = Event(
        record_id=case.record.id,
        version=case.record.version,
        trigger=case.last.trigger,
        source=case.last.before.state,
        target=case.state,
        payload=payload,
        cause=Cause("ann", cause),
        says=case.last.says,
    )

    (entry,) = manifest_of(case.record, [event])["history"]

    assert (entry["status"], entry["summary"]) == ("CANCELED", summary)


def test_a_job_that_came_by_message_has_its_manifest_in_the_home_of_its_workers(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    worker = InProcessWorker(server.url, prefix, tmp_path / "home")
    elsewhere = InProcessWorker(server.url, prefix, tmp_path / "elsewhere")
    accept_job(worker.client, "g/j", {"phases": [{"worker": {"capability": "x"}}]}, 5)
    file = tmp_path / "home" / "jobs" / "g" / "j" / "job_manifest.json"

    for verb, state in (("activate", "PENDING"), ("suspend", "SUSPENDED"), ("cancel", "CANCELED")):
        if verb != "activate":
            elsewhere.graphs.command("g/j", verb)
        settle(worker, "g/j", but=["scheduling"])
        assert json.loads(file.read_text()) == manifest_now(worker.client.records, "g/j")
        assert json.loads(file.read_text())["status"] == state

    assert not (tmp_path / "elsewhere").exists(), "a command leaves no folder in another home"


def test_only_the_effect_of_the_last_change_writes_the_manifest(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    worker = InProcessWorker(server.url, prefix, tmp_path / "home")
    draft = {"phases": [{"worker": {"capability": "x"}}], "hold": True}
    accept_job(worker.client, "g/j", draft, 5)
    file = tmp_path / "home" / "jobs" / "g" / "j" / "job_manifest.json"
    machine, handler = MACHINES["job"], handlers()["job.manifest"]
    (first,) = worker.due_effects("g/j", "manifest")
    worker.dispatch.leases.claim(
        first.key("g/j"),
        machine.effects["manifest"],
        nonce="n",
        holder="test",
        schema=machine.schema,
    )
    worker.graphs.command("g/j", "activate")
    (second,) = (e for e in worker.due_effects("g/j", "manifest") if e.suffix != first.suffix)

    written = []
    for entry, nonce in ((first, "n"), (second, "")):
        worker.runner.perform(machine, entry.name, handler, entry.key("g/j"), nonce=nonce)
        written.append(file.exists())

    assert written == [False, True], "of its creation, of its activation"


def test_the_output_of_a_failed_job_is_kept_without_secrets_and_told_to_its_next_attempt(
    server: EmbeddedServer, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "open-sesame-7")
    worker = InProcessWorker(server.url, prefix, tmp_path / "home")
    command = 'echo "my key is $MY_API_KEY"; exit 75'
    worker.graphs.create("g/j", {"phases": [{"worker": {"command": command}}]})
    worker.graphs.command("g/j", "activate")

    settle(worker, "g/j")

    job = worker.graphs.job("g/j")
    summary = brief_of(worker.client.records, job, "worker")["summary"]
    assert summary == "exit code 75: my key is *************"
    assert "open-sesame" not in str([job, *worker.client.history("g/j")])
