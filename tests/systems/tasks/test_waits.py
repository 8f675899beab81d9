"""What lists and pages say of the tasks that wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.systems.tasks import waits
from interlock.systems.tasks.assignment import assign
from interlock.systems.tasks.claims import claim
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.waits import Waits
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.round_trips import round_trips
from tests.systems.tasks.claims import submitted
from tests.systems.threads.threads import client_of


@pytest.fixture
def client(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, home=tmp_path, agents_max=0)


@pytest.fixture
def tasks(client: Client) -> Tasks:
    return Tasks(client)


def test_a_list_takes_as_many_round_trips_for_many_waiting_tasks_as_for_one(
    client: Client, tasks: Tasks
) -> None:
    for number in range(8):
        after = [f"t{number - 1}"] if number else []
        payload = {"title": "x", "repo": "/nowhere", "agent": f"make {number}", "depends_on": after}
        client.submit(payload, id=f"b/t{number}", machine="task")
    client.submit({**payload, "depends_on": []}, id="c/t0", machine="task")
    tasks.of("b")  # loads the scripts of the store

    with round_trips() as for_one:
        tasks.of("c")
    with round_trips() as for_many:
        tasks.of("b")
    assert 0 < for_one() == for_many()


def test_the_tasks_of_a_queue_wait_for_a_slot_once_the_first_that_can_be_claimed_found_none(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"repo": str(tmp_path)}
    after = submitted(client, "b/after", **here, depends_on=["first"], role="coder")
    first = submitted(client, "b/first", **here, role="coder")
    behind = submitted(client, "b/behind", **here, role="coder")
    other = submitted(client, "b/other", role="writer")

    def why(*names: str) -> list[str]:
        records = [client.show(name) for name in names]
        found = Waits(client.records, records)
        return [found.why(record) for record in records]

    assert why(first, behind, other) == ["", "", ""]

    assert assign(client.records, "b") == 0

    waiting = "it waits for a free slot: all 0 agents of "
    assert [text.startswith(waiting) for text in why(first, behind, other)] == [True, True, False]
    assert why(behind)[0].startswith(waiting), "also where it is asked for alone"
    assert why(after) == ["it waits for first"]
    monkeypatch.setattr(waits, "SLOT_AWAITED_MS", 0)
    assert why(first) == [""], "a note is not believed for ever"


def test_a_task_that_was_claimed_meanwhile_does_not_wait_for_a_slot_when_it_is_open_again(
    client: Client, tmp_path: Path
) -> None:
    task = submitted(client, "b/one", repo=str(tmp_path))
    assign(client.records, "b")
    assert claim(client.records, client.show(task), agent="b/agent~x")
    client.fire(task, "released")

    record = client.show(task)

    assert (record.state, Waits(client.records, [record]).why(record)) == ("open", "")
