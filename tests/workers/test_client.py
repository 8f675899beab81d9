"""The client: what producers and people call, on a real store and without a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from interlock.kernel.errors import (
    CallError,
    IdTakenError,
    IllegalTransitionError,
    InvalidIdError,
    InvalidPayloadError,
    KernelError,
    NewerSchemaError,
    StoreDownError,
    UnknownMachineError,
    UnknownRecordError,
)
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.record import PARTITIONS
from interlock.kernel.store.commands import Call
from interlock.kernel.store.leases import Lease
from interlock.workers.client import Client, WaitTimeoutError
from interlock.workers.engine.app import queue_of
from interlock.workers.engine.sweeps import prune
from interlock.workers.gateways.server import EmbeddedServer, free_port
from tests.workers.threads.threads import bring, client_of, thread_payload


@pytest.fixture
def here(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def waiting_in(client: Client, name: str) -> int:
    """Return how many messages are in an effect's queue, at every priority."""
    queue = queue_of(client.settings, name)
    steps = ("", "\x06\x163", "\x06\x166", "\x06\x169")
    lengths: list[Any] = [client.dispatch.client.llen(f"{queue}{step}") for step in steps]
    return sum(lengths)


# --- submit ------------------------------------------------------------------------------------


def test_a_submission_begins_at_once_and_rings_for_a_worker(here: Client) -> None:
    done = here.submit(thread_payload(), machine="thread", id="one")

    assert (done.id, done.replayed) == ("one", False)
    assert here.show("one").state == "awaiting_inference"
    assert waiting_in(here, "inference") == 1


def test_a_repeated_submission_changes_nothing(here: Client) -> None:
    here.submit(thread_payload(), machine="thread", id="one")
    before = here.show("one")

    assert here.submit(thread_payload(), machine="thread", id="one").replayed
    assert here.show("one") == before
    assert waiting_in(here, "inference") == 1


def test_a_repetition_begins_what_a_lost_producer_only_bore(here: Client) -> None:
    bear(here, "one")
    assert here.show("one").state == "proposed"

    assert here.submit(thread_payload(), machine="thread", id="one").replayed
    assert here.show("one").state == "awaiting_inference"


def bear(client: Client, new_id: str) -> None:
    """Do the first half of a submission, as a producer that dies between."""
    client.dispatch.create("thread", new_id, thread_payload(), Call(Cause("producer")), cap=0)


def test_the_same_id_with_another_payload_is_taken(here: Client) -> None:
    here.submit(thread_payload(), machine="thread", id="one")

    with pytest.raises(IdTakenError) as refusal:
        here.submit(thread_payload("Pens"), machine="thread", id="one")

    assert refusal.value.code == "id_taken"
    assert here.show("one").data["inciting"]["title"] == "Paper"


def test_an_id_stays_taken_after_its_record_is_pruned(here: Client) -> None:
    record = bring(here, "one", "awaiting_confirmation")
    here.decide("one", "reject", proposal=record.proposal)
    prune_now(here)
    with pytest.raises(UnknownRecordError):
        here.show("one")

    assert here.submit(thread_payload(), machine="thread", id="one").replayed
    with pytest.raises(UnknownRecordError):
        here.show("one")
    with pytest.raises(IdTakenError):
        here.submit(thread_payload("Pens"), machine="thread", id="one")


def prune_now(client: Client) -> None:
    """Prune what has ended, once the effects that it still owes are done."""
    record = client.show("one")
    for entry in record.entries:
        effect = client.dispatch.effect("thread", entry.name)
        lease = client.dispatch.leases.claim(
            entry.key("one"), effect, nonce="n", holder="test", schema=1
        )
        assert isinstance(lease, Lease)
        client.dispatch.leases.settle(lease, client.dispatch.render)
    client.dispatch.settings = client.settings.model_copy(update={"prune_after_s": 0.001})
    pruned = sum(prune.run(client.dispatch, number)["pruned"] for number in range(PARTITIONS))
    assert pruned == 1


def test_many_racing_submissions_of_one_id_bear_one_record(here: Client) -> None:
    with ThreadPoolExecutor(16) as racers:
        answers = list(
            racers.map(
                lambda _: here.submit(thread_payload(), machine="thread", id="one"), range(16)
            )
        )

    assert sum(not one.replayed for one in answers) == 1
    assert here.show("one").version == 2
    assert waiting_in(here, "inference") == 1


def test_submitting_many_answers_for_each(here: Client) -> None:
    here.submit(thread_payload("Pens"), machine="thread", id="taken")

    payloads: list[Any] = [
        thread_payload() | {"id": "good", "priority": 0},
        thread_payload() | {"id": "taken"},
        thread_payload() | {"id": "bad id"},
        {"id": "no-event"},
        thread_payload() | {"id": "too-eager", "priority": -1},
        thread_payload() | {"id": "eager", "priority": "very"},
        thread_payload() | {"id": 7},
        "no mapping",
        thread_payload() | {"id": "good", "priority": 0},
        thread_payload(),
    ]

    answers = here.submit_many(payloads, machine="thread")

    assert [type(one.error).__name__ for one in answers] == [
        "NoneType",
        "IdTakenError",
        "InvalidIdError",
        "InvalidPayloadError",
        "InvalidPayloadError",
        "InvalidPayloadError",
        "InvalidIdError",
        "InvalidPayloadError",
        "NoneType",
        "NoneType",
    ]
    assert [one.replayed for one in answers] == [False] * 8 + [True, False]
    assert here.show("good").priority == 0
    assert here.show(answers[-1].id).state == "awaiting_inference"


@pytest.mark.parametrize(
    ("payload", "options", "problem"),
    [
        (thread_payload(policy="reckless"), {}, InvalidPayloadError),
        (thread_payload(policy={"no_such_axis": 1}), {}, InvalidPayloadError),
        (thread_payload(colour="blue"), {}, InvalidPayloadError),
        (thread_payload() | {"inciting": "text"}, {}, InvalidPayloadError),
        (thread_payload(items=[{"label": "no id"}]), {}, InvalidPayloadError),
        (thread_payload(expires_s=0), {}, InvalidPayloadError),
        (thread_payload(), {"priority": 10}, InvalidPayloadError),
        (thread_payload(), {"machine": "washing"}, UnknownMachineError),
        (thread_payload(), {"priority": True}, InvalidPayloadError),
        (thread_payload(), {"id": "with space"}, InvalidIdError),
        (thread_payload(), {"id": ""}, InvalidIdError),
        (thread_payload(), {"id": "a/child"}, InvalidIdError),
        (thread_payload() | {"inciting": {"text": "\ud800"}}, {}, InvalidPayloadError),
        (thread_payload() | {"inciting": {"fields": {"x": float("nan")}}}, {}, InvalidPayloadError),
        (
            thread_payload() | {"inciting": {"fields": {"x": "y" * 300_000}}},
            {},
            InvalidPayloadError,
        ),
        (thread_payload() | {"inciting": {"fields": {"x": object()}}}, {}, InvalidPayloadError),
        (thread_payload() | {"inciting": {"fields": {1: 2}}}, {}, InvalidPayloadError),
    ],
)
def test_a_wrong_submission_is_one_clear_error_and_bears_nothing(
    here: Client, payload: dict[str, Any], options: dict[str, Any], problem: type[Exception]
) -> None:
    with pytest.raises(problem):
        here.submit(payload, **{"machine": "thread", **options})

    assert here.list(machine="thread") == []


def test_a_priority_reaches_record_and_queue(here: Client) -> None:
    here.submit(thread_payload(), machine="thread", id="last", priority=9)
    here.submit(thread_payload(), machine="thread", id="first", priority=0)

    queue = queue_of(here.settings, "inference")
    assert here.show("last").priority == 9
    assert here.dispatch.client.llen(queue) == 1
    assert here.dispatch.client.llen(f"{queue}\x06\x169") == 1


def test_a_policy_caps_what_the_family_may_spend(here: Client) -> None:
    here.submit(thread_payload(policy={"budget_micro": 5}), machine="thread", id="one")

    assert here.show("one").counters["cap"] == 5


# --- cancel, pause, resume, retry --------------------------------------------------------------


def test_a_cancel_ends_what_waits_and_asks_what_runs(here: Client) -> None:
    bring(here, "waits", "awaiting_confirmation")
    bring(here, "runs", "executing")

    assert here.cancel("waits", reason="enough").data["reason"] == "enough"
    assert here.cancel("runs", reason="enough").state == "executing"
    assert [e.trigger for e in here.history("runs") if isinstance(e, Event)][
        -1
    ] == "cancel_requested"
    with pytest.raises(IllegalTransitionError):
        here.cancel("waits")


def test_a_pause_says_what_it_did_and_is_lifted(here: Client) -> None:
    bring(here, "one", "awaiting_inference")

    assert here.pause("one", reason="lunch") == "paused"
    assert here.pause("one") == "already"
    assert here.show("one").paused
    assert here.resume("one") == "resumed"
    assert here.resume("one") == "already"
    assert not here.show("one").paused
    kinds = [line.kind for line in here.history("one") if isinstance(line, Note)]
    assert kinds == ["pause", "resume"]


def test_a_paused_card_can_be_answered(here: Client) -> None:
    record = bring(here, "one", "awaiting_confirmation")
    here.pause("one")

    assert here.decide("one", "approve", proposal=record.proposal).state == "executing"
    assert here.show("one").paused


def test_a_retry_says_when_there_is_nothing_to_retry(here: Client) -> None:
    bring(here, "one", "awaiting_inference")

    assert here.retry("one") == "nothing"


@pytest.mark.parametrize("act", ["pause", "resume", "retry", "cancel", "show", "card"])
def test_nobody_acts_on_a_record_that_is_not_there(here: Client, act: str) -> None:
    with pytest.raises(UnknownRecordError):
        getattr(here, act)("nobody")


# --- reading ------------------------------------------------------------------------------------


def test_a_wait_returns_where_a_person_is_asked_or_at_the_end(here: Client) -> None:
    record = bring(here, "one", "awaiting_confirmation")

    assert here.wait("one", timeout_s=1).state == "awaiting_confirmation"
    with pytest.raises(WaitTimeoutError, match="still awaiting_confirmation"):
        here.wait("one", timeout_s=0.05, for_person=False)
    here.decide("one", "reject", proposal=record.proposal)
    assert here.wait("one", timeout_s=1, for_person=False).state == "dismissed"


def test_a_watch_yields_each_line_once_until_the_end(here: Client) -> None:
    record = bring(here, "one", "awaiting_confirmation")
    reject = partial(here.decide, "one", "reject", proposal=record.proposal)
    answer = threading.Timer(0.1, reject)
    answer.start()

    lines = list(here.watch("one", timeout_s=2))
    answer.join()

    assert lines == here.history("one")
    assert [e.version for e in lines if isinstance(e, Event)] == list(range(1, record.version + 2))


def test_a_list_is_ordered_and_counted_and_refuses_an_unknown_state(here: Client) -> None:
    bring(here, "older", "awaiting_confirmation")
    bring(here, "newer", "awaiting_intent_confirmation")

    assert [row.id for row in here.list(machine="thread")] == ["older", "newer"]
    assert [row.id for row in here.list(machine="thread", state="awaiting_confirmation")] == [
        "older"
    ]
    assert [card.record_id for card in here.cards()] == ["older", "newer"]
    assert len(here.list(machine="thread", limit=1)) == 1
    with pytest.raises(CallError, match="no state 'asleep'"):
        here.list(machine="thread", state="asleep")


def test_the_log_says_who_did_what_and_why(server: EmbeddedServer, prefix: str) -> None:
    here = client_of(server.url, prefix)
    bring(here, "one", "awaiting_confirmation")
    here.cancel("one", reason="not needed")

    last = [line for line in here.history("one") if isinstance(line, Event)][-1]
    assert (last.cause.actor, last.cause.reason) == ("tester", "not needed")


@pytest.mark.parametrize(
    "act",
    [
        lambda client: client.submit(thread_payload(), machine="thread", id="one"),
        lambda client: client.submit(thread_payload(hold=True), machine="thread", id="one"),
        lambda client: client.fire("one", "confirmed"),
        lambda client: client.decide("one", "approve", proposal="one:1"),
        lambda client: client.show("one"),
        lambda client: client.list(machine="thread"),
        lambda client: client.cards(),
        lambda client: client.pause("one"),
    ],
)
def test_a_store_that_is_down_is_one_typed_error(act: Callable[[Client], Any]) -> None:
    here = client_of(f"redis://127.0.0.1:{free_port()}/0", "nobody")

    with pytest.raises(StoreDownError):
        act(here)


def test_a_store_that_goes_down_later_is_the_same_error(
    new_server: Callable[..., EmbeddedServer],
) -> None:
    server = new_server()
    here = client_of(server.url, "late")
    here.submit(thread_payload(), machine="thread", id="one")
    server.stop()

    with pytest.raises(KernelError):
        here.submit(thread_payload(hold=True), machine="thread", id="two")


def test_what_a_trigger_would_do_is_told_without_firing_it(here: Client) -> None:
    here.submit(thread_payload(), machine="thread", id="one")
    before = here.show("one").version

    found = here.explain("one", "dismissed_by_user", {"reason": "enough"})
    assert (found.target, found.state) == ("dismissed", here.show("one").state)
    assert "to dismissed" in found.sentence
    refused = here.explain("one", "execute")
    assert (refused.target, "legal here" in refused.sentence) == ("", True)
    assert here.show("one").version == before


def test_a_record_of_a_newer_schema_is_left_alone(here: Client) -> None:
    here.submit(thread_payload(), machine="thread", id="one")
    here.dispatch.client.hset(here.dispatch.keys.record("one"), "schema", "99")

    with pytest.raises(NewerSchemaError, match="99"):
        here.cancel("one")

    assert here.show("one").state == "awaiting_inference"
