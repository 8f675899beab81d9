"""The hours of the day in which the worker of a job may start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from interlock.kernel.event import Event
from interlock.systems.jobs.effects.scheduling import closed_for_s
from interlock.systems.jobs.status import GraphView
from interlock.systems.jobs.verbs import at_gate
from interlock.workers.gateways.server import EmbeddedServer
from tests.races.in_process_worker import InProcessWorker
from tests.systems.jobs.test_graphs import COMMAND, settle

NOON_MS = 12 * 3_600_000


@pytest.mark.parametrize(
    ("hours", "now_ms", "wait_s"),
    [
        ("08:00-17:30", NOON_MS, 0),
        ("12:00-13:00", NOON_MS, 0),
        ("11:00-12:00", NOON_MS, 23 * 3_600),
        ("12:01-13:00", NOON_MS, 60),
        ("22:00-06:00", NOON_MS, 10 * 3_600),
        ("22:00-12:01", NOON_MS, 0),
        ("09:00-09:00", NOON_MS, 0),
    ],
)
def test_the_wait_for_the_hours_of_a_job(hours: str, now_ms: int, wait_s: int) -> None:
    assert closed_for_s(hours, now_ms) == wait_s


def hours_from(now_ms: int, hours: int) -> str:
    """Return a window of two hours that opens at the beginning of this hour, or so much later."""
    hour = now_ms // 3_600_000 + hours
    return f"{hour % 24:02}:00-{(hour + 2) % 24:02}:00"


def test_a_job_outside_its_hours_is_suspended_by_the_scheduler_and_starts_inside_them(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    worker = InProcessWorker(server.url, prefix, tmp_path / "home")
    now_ms = worker.dispatch.views.now_ms()
    for name, begins in (("later", 3), ("now", 0)):
        fields = {"phases": COMMAND, "hours": hours_from(now_ms, begins)}
        worker.graphs.create(f"g/{name}", fields, held=False)
        settle(worker, f"g/{name}", but=["worker"])

    later = worker.graphs.job("g/later")
    events = [line for line in worker.client.history("g/later") if isinstance(line, Event)]
    assert (later.state, events[-1].cause.actor) == ("suspended", "scheduling")
    assert 2 * 3_600 <= later.data["suspended_s"] <= 3 * 3_600
    assert worker.client.cards_of("g/later") == [], "nobody is asked"
    assert not at_gate(later), "so that `run` waits for its hours"
    assert GraphView(worker.graphs).why(later) == f"waits for its hours, {later.data['hours']} UTC"
    assert GraphView(worker.graphs).status("g")["stands"] == "in progress"
    assert worker.graphs.job("g/now").state == "running"
    without = replace(later, data={**later.data})
    without.data.pop("hours")
    assert GraphView(worker.graphs).why(without) == "suspended for some time"
    assert worker.graphs.command_all("g", "suspend", {})["g/later"] == "suspended"
    held = worker.graphs.job("g/later")
    assert at_gate(held), "it waits for a person now, not for its hours"
    assert len(worker.client.cards_of("g/later")) == 1


def test_the_slots_of_a_lost_attempt_are_free_when_the_hours_have_ended(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    worker = InProcessWorker(server.url, prefix, tmp_path / "home")
    worker.graphs.open("g", {"slots": 1})
    hours = hours_from(worker.dispatch.views.now_ms(), 3)
    for name in ("late", "other"):
        worker.graphs.create(f"g/{name}", {"phases": COMMAND, "hours": hours}, held=False)
    settle(worker, "g/late", but=["scheduling"])
    assert worker.dispatch.slots.acquire("graph:g", worker.record("g/late"), 1).held

    settle(worker, "g/late")

    assert worker.record("g/late").state == "suspended"
    assert worker.dispatch.slots.acquire("graph:g", worker.record("g/other"), 1).held
