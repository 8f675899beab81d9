"""What one actor does to records: the leases that it is given, and the questions that it asks."""

from __future__ import annotations

from functools import partial

import pytest

from interlock.kernel.errors import FencedError, GuardRefusedError, HeldError, StaleDecisionError
from interlock.kernel.event import Event, Note
from interlock.kernel.store.leases import Lease
from interlock.workers.client import Client
from interlock.workers.engine.records import Records
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.tasks.claims import claimed
from tests.systems.threads.threads import client_of

AGENT = {"name": "a", "role": "any", "command": "true", "task": "b/t"}
DELIVERY = {
    "endpoint": "acme",
    "kind": "record.ended",
    "record": "one",
    "machine": "thread",
    "at_ms": 1,
}
CLAIM = {"owner": "ann", "identity": "unknown", "at_ms": 1}


@pytest.fixture
def client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def assigned(client: Client) -> Records:
    return client.records.named("assignment")


def test_a_creator_gets_the_same_lease_again_and_another_one_gets_none(client: Client) -> None:
    records = assigned(client)
    first = records.create("agent", "b/a", AGENT, leased_by="here").granted
    again = records.create("agent", "b/a", AGENT, leased_by="here")
    assert again.replayed
    assert (again.granted.key, again.granted.token) == (first.key, first.token)
    with pytest.raises(HeldError, match="another holder"):
        records.create("agent", "b/a", AGENT, leased_by="elsewhere")


def test_a_creator_does_not_get_what_its_own_process_has_claimed_since(client: Client) -> None:
    records, leases = assigned(client), client.dispatch.leases
    create = partial(records.create, "delivery", "d", DELIVERY, leased_by="here")
    first = create().granted
    leases.release(first, counted=False)
    effect = client.dispatch.effect("delivery", first.name)
    by_message = leases.claim(
        first.key, effect, nonce="message", holder="here", schema=first.record.schema
    )
    assert isinstance(by_message, Lease)

    with pytest.raises(HeldError, match="another holder"):
        create()


def test_a_caller_gets_the_lease_of_the_state_that_its_trigger_leads_to(client: Client) -> None:
    client.submit({"title": "x"}, id="b/t", machine="task")
    lease = assigned(client).fire("b/t", "claimed", CLAIM, leased_by="ann").granted
    entry = next(one for one in lease.record.entries if one.suffix == lease.suffix)
    assert (lease.record.state, entry.holder, entry.token) == ("claimed", "ann", lease.token)
    assert entry.lease_until > lease.record.since_ms


def test_a_lease_that_a_repeated_call_does_not_find_is_refused(client: Client) -> None:
    client.submit({"title": "x"}, id="b/t", machine="task")
    records = assigned(client)
    records.fire("b/t", "claimed", CLAIM, op_id="once", leased_by="ann")
    with pytest.raises(HeldError, match="another holder"):
        records.fire("b/t", "claimed", CLAIM, op_id="once", leased_by="ann")


def test_a_check_raises_what_firing_would_raise_and_changes_nothing(client: Client) -> None:
    client.submit({"title": "x", "depends_on": ["other"]}, id="b/late", machine="task")
    client.submit({"title": "x"}, id="b/now", machine="task")
    late, now = client.show("b/late"), client.show("b/now")
    with pytest.raises(GuardRefusedError):
        client.records.check(late, "claimed", CLAIM)
    client.records.check(now, "claimed", CLAIM)
    assert (client.show("b/late"), client.show("b/now")) == (late, now)


def test_a_part_of_interlock_has_as_a_producer_the_rights_of_one_and_its_name(
    client: Client,
) -> None:
    client.submit({"title": "x"}, id="b/t", machine="task")
    records = client.records.named("follow_up")
    with pytest.raises(GuardRefusedError, match="only producer or person"):
        records.fire("b/t", "cancelled", {"reason": "x"})
    records.as_producer.fire("b/t", "cancelled", {"reason": "x"})
    actors = {
        line.target: line.cause.actor for line in client.history("b/t") if isinstance(line, Event)
    }
    assert actors["cancelled"] == "follow_up"


def test_a_sweep_fires_in_the_state_that_it_has_seen_and_in_no_later_one(client: Client) -> None:
    client.submit({"title": "x"}, id="b/t", machine="task")
    records, seen = client.records.named("assignment"), client.show("b/t").entered
    records.fire("b/t", "claimed", CLAIM, version=seen, leased_by="w")
    client.fire("b/t", "requeued", {"reason": "x"})
    with pytest.raises(StaleDecisionError):
        records.fire("b/t", "claimed", CLAIM, version=seen, leased_by="w")


def test_a_repeated_creation_gives_no_lease_of_a_later_effect(client: Client) -> None:
    client.submit({"title": "x"}, id="b/t", machine="task")
    records = assigned(client)
    records.fire("b/t", "claimed", CLAIM, leased_by="here")
    with pytest.raises(HeldError):
        records.create("task", "b/t", {"title": "x"}, leased_by="here")


def test_a_holder_ends_its_effect_without_an_outcome(client: Client) -> None:
    claim = claimed(client, "b/t")
    client.fire("b/t", "requeued", {"reason": "x"})
    task = client.show("b/t")
    assert [entry.state for entry in task.entries if entry.suffix == claim.task.suffix] == [
        "draining"
    ]
    held = (claim.task.suffix, claim.task.token)
    assert client.records.settle(task, held) == "settled"
    assert claim.task.suffix not in {entry.suffix for entry in client.show("b/t").entries}


def test_a_holder_notes_while_it_has_its_lease_and_no_longer(client: Client) -> None:
    claim = claimed(client, "b/t")
    held, task = (claim.task.suffix, claim.task.token), client.show("b/t")
    client.records.note(task, "said", {"text": "a"}, held=held)
    client.fire("b/t", "requeued", {"reason": "x"})
    client.records.settle(client.show("b/t"), held)
    with pytest.raises(FencedError):
        client.records.note(client.show("b/t"), "said", {"text": "b"}, held=held)
    notes = [line for line in client.history("b/t") if isinstance(line, Note)]
    assert [note.detail["text"] for note in notes if note.kind == "said"] == ["a"]


def test_a_note_is_written_again_unless_its_op_id_is_repeated(client: Client) -> None:
    client.submit({"title": "x"}, id="b/t", machine="task")
    task = client.show("b/t")
    for op_id in ("once", "once", None, None):
        client.records.note(task, "said", {}, op_id=op_id)
    notes = [line for line in client.history("b/t") if isinstance(line, Note)]
    assert [note.kind for note in notes].count("said") == 3


def test_a_call_names_what_a_person_saw_or_a_lease_and_not_both(client: Client) -> None:
    with pytest.raises(TypeError, match="not both"):
        assigned(client).fire("b/t", "claimed", CLAIM, version=1, held=("1.0", "token"))
