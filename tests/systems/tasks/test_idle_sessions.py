"""Which tasks are left to idle sessions, and which session gives way to a task."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from interlock.kernel.event import Event
from interlock.systems.tasks.agent_slots import take_slot
from interlock.systems.tasks.current_task import CurrentTask
from interlock.systems.tasks.idle_sessions import IdleSessions, session_fields, was_ended
from interlock.systems.tasks.launch_spec import PreparedClaim
from interlock.workers.client import Client
from interlock.workers.engine.work import Outcome
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.tasks.claims import Claimed, claimed, submitted
from tests.systems.tasks.supervised import held, supervised
from tests.systems.threads.threads import client_of

SESSION: dict[str, Any] = {"session": True}


@pytest.fixture
def client(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, home=tmp_path, agents_max=3)


@pytest.fixture
def slots() -> Iterator[ExitStack]:
    """Yield what keeps the slots of agents taken."""
    with ExitStack() as stack:
        yield stack


def at_work(client: Client, name: str, slots: ExitStack) -> Claimed:
    """Let a session of this computer work on a task."""
    session = claimed(client, name, **SESSION).alive()
    slot = take_slot(client.settings)
    assert slot is not None
    slots.callback(slot.close)
    slot.give_to(session.names.agent, session_fields(client.show(name).data))
    return session


def idle(client: Client, name: str, slots: ExitStack) -> Claimed:
    """Let a session of this computer become idle after a task; its slot stays taken."""
    session = at_work(client, name, slots)
    session.task_fires("completed", {"summary": "done"})
    session.agent_fires("task_finished")
    return session


def state(client: Client, session: Claimed) -> str:
    return client.show(session.names.agent).state


def test_each_idle_session_is_left_one_task_that_it_can_do(
    client: Client, slots: ExitStack
) -> None:
    session = idle(client, "b/first", slots)
    tasks = {
        name: client.show(submitted(client, name, **fields))
        for name, fields in {
            "b/plain": {},
            "b/role": {**SESSION, "role": "writer"},
            "b/later": {**SESSION, "depends_on": ["first"]},
            "c/elsewhere": SESSION,
            "b/next": SESSION,
            "b/more": SESSION,
        }.items()
    }
    sessions = IdleSessions(client.records)

    left = [name for name, task in tasks.items() if sessions.leave(task)]

    assert left == ["b/next"]
    assert state(client, session) == "idle"


def test_a_session_at_work_is_left_no_task_and_is_not_ended(
    client: Client, slots: ExitStack
) -> None:
    session = idle(client, "b/first", slots)
    task = client.show(submitted(client, "b/next", **SESSION))
    session.agent_fires("task_assigned", {"task": "b/other"})
    sessions = IdleSessions(client.records)

    assert not sessions.leave(task)
    sessions.end_one()

    assert state(client, session) == "working"


def test_the_session_that_is_idle_for_longest_gives_way_and_no_other_until_its_slot_is_free(
    client: Client, slots: ExitStack
) -> None:
    soon_free = slots.enter_context(ExitStack())
    first, second = idle(client, "b/first", soon_free), idle(client, "c/second", slots)
    assert client.show(first.names.agent).since_ms <= client.show(second.names.agent).since_ms

    for _ in range(2):
        IdleSessions(client.records).end_one()

    assert (state(client, first), state(client, second)) == ("dead", "idle")
    ended = [line for line in client.history(first.names.agent) if isinstance(line, Event)][-1]
    assert ended.because.endswith("another task waited for its slot")
    assert was_ended(client.records, first.names.agent)
    assert not was_ended(client.records, second.names.agent)

    # The process of the first has ended, and another agent has its slot.
    soon_free.close()
    at_work(client, "d/third", slots)
    IdleSessions(client.records).end_one()

    assert state(client, second) == "dead"


def test_a_session_that_was_given_a_task_meanwhile_does_not_give_way(
    client: Client, slots: ExitStack
) -> None:
    session = idle(client, "b/first", slots)
    sessions = IdleSessions(client.records)
    assert not sessions.leave(client.show(submitted(client, "c/other")))
    session.agent_fires("task_assigned", {"task": "b/next"})

    sessions.end_one()

    assert state(client, session) == "working"


@pytest.mark.parametrize("recycled", [True, False])
def test_a_session_that_was_ended_is_given_no_further_task(
    client: Client, tmp_path: Path, *, recycled: bool
) -> None:
    claim = claimed(client, "b/one", session=True)
    supervisor = supervised(client, claim, tmp_path, session=True)
    supervisor.agent.fire(Outcome("confirmed_alive"))
    supervisor.agent.fire(Outcome("task_finished"))
    other = claimed(client, "b/two", session=True)
    prepared = PreparedClaim(other.task.key, other.task.token, other.names.turn, "", "", "", "")
    task = CurrentTask(held(client, other.task), prepared, client.show(claim.names.agent))
    supervisor.task, supervisor.claiming = None, Future()
    supervisor.claiming.set_result(task)
    if recycled:
        client.records.named("assignment").fire(claim.names.agent, "recycled")
    process = Mock()

    supervisor._take_next_task(process, 0.0)

    # The claim of the task lapses, which costs no try.
    given = [] if recycled else [task]
    assert ([supervisor.task] if supervisor.task else []) == given
    assert process.send.called is not recycled
    assert client.show("b/two").state == ("claimed" if recycled else "in_progress")
    assert [*supervisor.heartbeat._held] == [one.work.key for one in given]
