"""A deployment takes no more records than its quota from outside, and what it has goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.kernel.errors import QuotaError
from interlock.systems.jobs.client import Graphs
from interlock.systems.runs.client import Runs
from interlock.systems.tasks.plans.client import Plans
from interlock.systems.tasks.plans.file import read_plan
from interlock.systems.threads.client import Threads
from interlock.workers.client import Client
from interlock.workers.engine import quota
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.metrics import Exposition
from interlock.workers.producer_message import receive
from tests.systems.jobs.graph_files import read_steps
from tests.systems.threads.threads import bring, thread_payload
from tests.workers.engine.running import Running, settings_for


@pytest.fixture
def running(server: EmbeddedServer, prefix: str) -> Running:
    return Running(settings_for(server.url, prefix, INTERLOCK_RECORDS_MAX="2"))


def submit(client: Client, record_id: str) -> bool:
    """Submit a thread, and return whether it was there already."""
    return client.submit(thread_payload(), machine="thread", id=record_id).replayed


def records(client: Client) -> int:
    return sum(sum(states.values()) for states in client.counts().machines.values())


def test_one_record_more_than_the_quota_is_refused_until_another_ends(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "KEPT_S", 0.0)
    client = running.client
    assert (submit(client, "a"), submit(client, "b")) == (False, False)
    assert "2 records have not ended" in running.dispatch.quota.problem()
    assert "interlock_records_room 0.0" in Exposition(running.dispatch).text().decode()

    with pytest.raises(QuotaError, match="INTERLOCK_RECORDS_MAX=2 leaves no room for 1 more"):
        submit(client, "c")
    answer = receive(client, "submit", [{"id": "d", "payload": thread_payload()}], {})
    assert (answer["answer"], answer["error"]) == ("rejected", "QuotaError")
    assert submit(client, "a"), "a repeated submission gets the answer of the first"
    assert records(client) == 2

    client.cancel("a")
    assert running.dispatch.quota.problem() == ""
    assert "interlock_records_room 1.0" in Exposition(running.dispatch).text().decode()
    assert not submit(client, "c")


def test_what_this_process_creates_counts_before_the_store_is_counted_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "KEPT_S", 3_600.0)
    submit(running.client, "a")
    submit(running.client, "b")

    with pytest.raises(QuotaError):
        submit(running.client, "c")


def test_the_children_of_a_record_are_created_although_the_quota_is_used_up(
    running: Running,
) -> None:
    client = running.client
    submit(client, "a")
    bring(client, "b", "awaiting_confirmation")
    card = client.card("b")
    assert card is not None
    Threads(client).decompose("b", [{"title": "x"}, {"title": "y"}], proposal=card.proposal)

    running.perform("b", name="spawn")

    assert records(client) == 4


def test_what_needs_several_records_creates_none_where_there_is_no_room_for_all(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    client = Client(settings_for(server.url, prefix, INTERLOCK_RECORDS_MAX="1"))
    graph = read_steps(tmp_path / "graph.yaml", "{name: a, worker: w}")
    (tmp_path / "plan.yaml").write_text(
        "plan: p\nbacklog: b\ntasks: [{name: a, title: A}, {name: b, title: B}]\n"
    )
    (tmp_path / "run.yaml").write_text("plan: p\ncodons:\n  - {codon: one, command: 'true'}\n")
    graphs, plan = Graphs(client), read_plan(tmp_path / "plan.yaml")
    submissions: list[Callable[[], object]] = [
        lambda: graphs.create("g/a", {"phases": [{"worker": {"command": "true"}}]}),
        lambda: graphs.submit(graph),
        lambda: Plans(client).submit(plan),
        lambda: Runs(client).start(tmp_path / "run.yaml", tmp_path),
    ]
    for submission in submissions:
        with pytest.raises(QuotaError, match="leaves no room for 2 more"):
            submission()

    assert records(client) == 0
