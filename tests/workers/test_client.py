"""The clients of producers and people, on a real store and over HTTP, without a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import islice
from operator import itemgetter
from typing import Any

import pytest
from fastapi.testclient import TestClient

from interlock.kernel.errors import (
    CallError,
    IdTakenError,
    IllegalTransitionError,
    InvalidIdError,
    InvalidPayloadError,
    KernelError,
    MissedError,
    NewerSchemaError,
    StaleDecisionError,
    StoreDownError,
    UnknownMachineError,
    UnknownRecordError,
)
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.record import PARTITIONS, partition_of
from interlock.kernel.store.counts import RecordCounts
from interlock.kernel.store.feed import Feed, text_of
from interlock.kernel.store.leases import Lease
from interlock.workers.api.app import create_app
from interlock.workers.client import Client
from interlock.workers.config import Settings
from interlock.workers.engine.celery_app import queue_of
from interlock.workers.engine.polling import WaitTimeoutError
from interlock.workers.engine.record_filter import Wanted
from interlock.workers.engine.sweeps import prune
from interlock.workers.gateways.server import EmbeddedServer, free_port
from interlock.workers.remote.client import HttpClient
from tests.sweeping import sweeping
from tests.systems.threads.threads import bring, client_of, obstruct, thread_payload
from tests.workers.api.serving import end_streams_soon


class OverHttp(HttpClient):
    """A client over HTTP, and the client on the store with which a test prepares records."""

    def __init__(self, on_store: Client) -> None:
        self.served = TestClient(create_app(on_store), base_url="http://127.0.0.1")
        super().__init__("", actor=on_store.actor, http=self.served)
        self.settings, self.dispatch = on_store.settings, on_store.dispatch


@pytest.fixture(params=["store", "http"])
def interlock(request: pytest.FixtureRequest, server: EmbeddedServer, prefix: str) -> Any:
    """Return a client: each promise is kept on the store and over HTTP."""
    on_store = client_of(server.url, prefix, auth="none")
    return on_store if request.param == "store" else OverHttp(on_store)


def waiting_in(client: Client, name: str) -> int:
    """Return how many messages are in an effect's queue, at every priority."""
    queue = queue_of(client.settings, name)
    steps = ("", *(f"\x06\x16{priority}" for priority in range(1, 10)))
    lengths: list[Any] = [client.dispatch.client.llen(f"{queue}{step}") for step in steps]
    return sum(lengths)


@pytest.mark.parametrize("name", ["orphans", "launch"])
def test_nobody_acts_under_the_name_of_a_part_of_interlock(name: str) -> None:
    with pytest.raises(InvalidPayloadError, match=f"'{name}' is what the log calls a part of"):
        Client(Settings(), actor=name)


@pytest.mark.parametrize("name", ["ann\n", "an\x1b[31mn", "ann\u202e"])
def test_nobody_acts_under_a_name_that_the_log_cannot_show_as_it_is(name: str) -> None:
    with pytest.raises(InvalidPayloadError, match="has characters that cannot be seen"):
        Client(Settings(), actor=name)


# --- submit ------------------------------------------------------------------------------------


def test_a_submission_begins_at_once_and_sends_a_message_to_a_worker(interlock: Client) -> None:
    submitted = interlock.submit(thread_payload(), machine="thread", id="one")

    assert (submitted.id, submitted.replayed) == ("one", False)
    assert interlock.show("one").state == "awaiting_inference"
    assert waiting_in(interlock, "inference") == 1


def test_a_repeated_submission_changes_nothing(interlock: Client) -> None:
    interlock.submit(thread_payload(), machine="thread", id="one")
    before = interlock.show("one")

    assert interlock.submit(thread_payload(), machine="thread", id="one").replayed
    assert interlock.show("one") == before
    assert waiting_in(interlock, "inference") == 1


def test_a_repeated_submission_begins_a_record_that_a_lost_producer_only_created(
    interlock: Client,
) -> None:
    create_only(interlock, "one")
    assert interlock.show("one").state == "proposed"

    assert interlock.submit(thread_payload(), machine="thread", id="one").replayed
    assert interlock.show("one").state == "awaiting_inference"


def create_only(client: Client, new_id: str) -> None:
    """Do the first half of a submission, as a producer does that dies after it."""
    client.dispatch.lifecycle.create("thread", new_id, thread_payload(), Cause("producer"))


def test_the_same_id_with_another_payload_is_taken(interlock: Client) -> None:
    interlock.submit(thread_payload(), machine="thread", id="one")

    with pytest.raises(IdTakenError) as refusal:
        interlock.submit(thread_payload("Pens"), machine="thread", id="one")

    assert refusal.value.code == "id_taken"
    assert interlock.show("one").data["inciting"]["title"] == "Paper"


def test_an_id_stays_taken_after_its_record_is_pruned(interlock: Client) -> None:
    record = bring(interlock, "one", "awaiting_confirmation")
    interlock.decide("one", "reject", proposal=record.proposal)
    prune_now(interlock)
    with pytest.raises(UnknownRecordError):
        interlock.show("one")

    assert interlock.submit(thread_payload(), machine="thread", id="one").replayed
    with pytest.raises(UnknownRecordError):
        interlock.show("one")
    with pytest.raises(IdTakenError):
        interlock.submit(thread_payload("Pens"), machine="thread", id="one")


def settle_all(client: Client, thread_id: str) -> None:
    """Settle the effects of a thread that has ended."""
    for entry in client.show(thread_id).entries:
        effect = client.dispatch.effect("thread", entry.name)
        lease = client.dispatch.leases.claim(
            entry.key(thread_id), effect, nonce="n", holder="test", schema=9
        )
        assert isinstance(lease, Lease)
        client.dispatch.leases.settle(lease, client.dispatch.render)


def prune_now(client: Client) -> None:
    """Settle the effects of the ended record `one`, and prune it."""
    settle_all(client, "one")
    client.dispatch.settings = client.settings.model_copy(update={"prune_after_s": 0.001})
    pruned = sum(
        prune.run(sweeping(client.dispatch), number)["pruned"] for number in range(PARTITIONS)
    )
    assert pruned == 1


def test_many_racing_submissions_of_one_id_create_one_record(interlock: Client) -> None:
    with ThreadPoolExecutor(16) as racers:
        results = list(
            racers.map(
                lambda _: interlock.submit(thread_payload(), machine="thread", id="one"), range(16)
            )
        )

    assert sum(not result.replayed for result in results) == 1
    assert interlock.show("one").version == 2
    assert waiting_in(interlock, "inference") == 1


def test_submitting_many_returns_a_result_for_each(interlock: Client) -> None:
    interlock.submit(thread_payload("Pens"), machine="thread", id="taken")

    payloads: list[Any] = [
        thread_payload() | {"id": "good", "priority": 0},
        thread_payload() | {"id": "taken"},
        thread_payload() | {"id": "bad id"},
        {"id": "no-event"},
        thread_payload() | {"id": "too-eager", "priority": -1},
        thread_payload() | {"id": "eager", "priority": "very"},
        thread_payload() | {"id": 7},
        "not a mapping",
        thread_payload() | {"id": "good", "priority": 0},
        thread_payload(),
    ]

    results = interlock.submit_many(payloads, machine="thread")

    assert [type(result.error).__name__ for result in results] == [
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
    assert [result.replayed for result in results] == [False] * 8 + [True, False]
    assert interlock.show("good").priority == 0
    assert interlock.show(results[-1].id).state == "awaiting_inference"


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
def test_a_wrong_submission_is_one_clear_error_and_creates_nothing(
    interlock: Client, payload: dict[str, Any], options: dict[str, Any], problem: type[Exception]
) -> None:
    with pytest.raises(problem):
        interlock.submit(payload, **{"machine": "thread", **options})

    assert interlock.list(machine="thread") == []


def test_a_priority_reaches_record_and_queue(interlock: Client) -> None:
    interlock.submit(thread_payload(), machine="thread", id="last", priority=9)
    interlock.submit(thread_payload(), machine="thread", id="first", priority=0)

    queue = queue_of(interlock.settings, "inference")
    assert interlock.show("last").priority == 9
    assert interlock.dispatch.client.llen(queue) == 1
    assert interlock.dispatch.client.llen(f"{queue}\x06\x169") == 1


def test_a_policy_caps_what_the_family_may_spend(interlock: Client) -> None:
    interlock.submit(thread_payload(policy={"budget_micro": 5}), machine="thread", id="one")

    assert interlock.show("one").counters["cap.spent"] == 5


# --- cancel, pause, resume, retry --------------------------------------------------------------


def test_a_cancel_ends_a_waiting_record_and_asks_a_running_one_to_stop(interlock: Client) -> None:
    bring(interlock, "waits", "awaiting_confirmation")
    bring(interlock, "runs", "executing")

    assert interlock.cancel("waits", reason="enough").data["reason"] == "enough"
    assert interlock.cancel("runs", reason="enough").state == "executing"
    assert [e.trigger for e in interlock.history("runs") if isinstance(e, Event)][
        -1
    ] == "cancel_requested"
    with pytest.raises(IllegalTransitionError):
        interlock.cancel("waits")


def test_a_pause_returns_what_it_did_and_can_be_resumed(interlock: Client) -> None:
    bring(interlock, "one", "awaiting_inference")

    assert interlock.pause("one", reason="lunch") == "paused"
    assert interlock.pause("one") == "already"
    assert interlock.show("one").paused
    assert interlock.resume("one") == "resumed"
    assert interlock.resume("one") == "already"
    assert not interlock.show("one").paused
    kinds = [line.kind for line in interlock.history("one") if isinstance(line, Note)]
    assert kinds == ["pause", "resume"]


def test_a_verb_for_a_page_of_a_list_says_of_each_record_what_was_done_or_why_not(
    interlock: Client,
) -> None:
    for name in ("asks", "ended", "paused"):
        bring(interlock, name, "awaiting_confirmation")
    interlock.pause("paused")
    interlock.cancel("ended")
    with pytest.raises(CallError, match="name a condition of a list"):
        interlock.change_many("pause")

    planned = interlock.change_many("pause", machine="thread", dry_run=True).items
    done = interlock.change_many("pause", machine="thread", reason="wait").items
    first = interlock.change_many("cancel", text="paper", limit=2)
    rest = interlock.change_many("cancel", text="paper", limit=2, cursor=first.cursor)

    assert [(item.id, item.answer, item.why_not) for item in planned] == [
        ("asks", "awaiting_confirmation", ""),
        ("ended", "dismissed", "it has ended"),
        ("paused", "awaiting_confirmation", "it is paused already"),
    ]
    assert [(item.answer, item.why_not) for item in done] == [
        ("paused", ""),
        ("ended", "it has ended"),
        ("already", "it is paused already"),
    ]
    assert [(item.id, item.answer, type(item.error)) for item in first.items] == [
        ("asks", "dismissed", type(None)),
        ("ended", "", IllegalTransitionError),
    ]
    assert ([item.id for item in rest.items], rest.cursor) == (["paused"], "")


def test_a_paused_card_can_be_answered(interlock: Client) -> None:
    record = bring(interlock, "one", "awaiting_confirmation")
    interlock.pause("one")

    assert interlock.decide("one", "approve", proposal=record.proposal).state == "executing"
    assert interlock.show("one").paused


def test_a_retry_returns_nothing_if_there_is_nothing_to_retry(interlock: Client) -> None:
    bring(interlock, "one", "awaiting_inference")

    assert interlock.retry("one") == "nothing"


def test_a_retry_answers_the_card_that_its_proposal_names_and_no_other(interlock: Client) -> None:
    record = bring(interlock, "one", "done_cleanup_unsuccessful")
    give_up(interlock, "one", "resolution")
    given_up = {card.kind: card.proposal for card in interlock.cards_of("one")}
    seen = given_up["quarantine"]

    assert given_up == {"cleanup_failure": record.proposal, "quarantine": "one:retry:" + seen[10:]}
    with pytest.raises(StaleDecisionError):
        interlock.decide("one", "retry", proposal="one:1")
    with pytest.raises(StaleDecisionError, match=seen):
        interlock.decide("one", "retry", proposal="one:retry:1.7.0")
    with pytest.raises(InvalidPayloadError, match="takes no payload"):
        interlock.decide("one", "retry", {"reason": "try"}, proposal=seen)
    assert states_of(interlock, "one", "resolution") == ["quarantined"]
    interlock.decide("one", "retry", proposal=seen, op_id="mine")
    assert states_of(interlock, "one", "resolution") == ["lapsed"]
    assert interlock.show("one").version == record.version
    interlock.decide("one", "retry", proposal=seen, op_id="mine")
    with pytest.raises(StaleDecisionError, match="nothing waits"):
        interlock.decide("one", "retry", proposal=seen)
    give_up(interlock, "one", "resolution")
    assert interlock.decide("one", "retry", proposal=record.proposal).version == record.version + 1
    assert states_of(interlock, "one", "resolution") == ["quarantined"]


def states_of(client: Client, record_id: str, name: str) -> list[str]:
    return [entry.state for entry in client.show(record_id).entries if entry.name == name][:1]


def give_up(client: Client, record_id: str, name: str) -> None:
    """Use up the attempts of an effect, and let a sweep find that."""
    record, dispatch = client.show(record_id), client.dispatch
    entry = next(entry for entry in record.entries if entry.name == name)
    effect = dispatch.effect(record.machine, name)
    for number in range(entry.attempts_max):
        lease = dispatch.leases.claim(
            entry.key(record_id), effect, nonce=f"n{number}", holder="test", schema=record.schema
        )
        assert isinstance(lease, Lease)
        dispatch.leases.release(lease, counted=True)
    dispatch.indexes.poll_effects(partition_of(record_id), [entry.key(record_id)], gate_open=True)


@pytest.mark.parametrize("method", ["pause", "resume", "retry", "cancel", "show", "card"])
def test_every_call_refuses_a_record_that_does_not_exist(interlock: Client, method: str) -> None:
    with pytest.raises(UnknownRecordError):
        getattr(interlock, method)("nobody")


# --- reading ------------------------------------------------------------------------------------


def test_a_wait_returns_when_a_person_is_asked_or_at_the_end(interlock: Client) -> None:
    record = bring(interlock, "one", "awaiting_confirmation")

    assert interlock.wait("one", timeout_s=60).state == "awaiting_confirmation"
    with pytest.raises(WaitTimeoutError, match="still awaiting_confirmation"):
        interlock.wait("one", timeout_s=0.05, for_person=False)
    interlock.decide("one", "reject", proposal=record.proposal)
    assert interlock.wait("one", timeout_s=60, for_person=False).state == "dismissed"


def test_a_wait_returns_when_an_effect_asks_a_person(interlock: Client) -> None:
    bring(interlock, "one", "awaiting_inference")
    obstruct(interlock, "one")

    assert interlock.wait("one", timeout_s=60).state == "awaiting_inference"
    with pytest.raises(WaitTimeoutError):
        interlock.wait("one", timeout_s=0.05, for_person=False)


def test_a_watch_yields_each_line_once_until_the_end(interlock: Client) -> None:
    record = bring(interlock, "one", "awaiting_confirmation")

    def ends() -> None:
        interlock.decide("one", "reject", proposal=record.proposal)
        settle_all(interlock, "one")

    watched = interlock.watch("one", timeout_s=600)
    lines = [next(watched)]
    ending = threading.Timer(0.1, ends)
    ending.start()
    lines += watched
    ending.join()

    assert lines == interlock.history("one")
    assert [e.version for e in lines if isinstance(e, Event)] == list(range(1, record.version + 2))


def test_a_watch_ends_when_its_time_is_up(interlock: Client) -> None:
    bring(interlock, "one", "awaiting_confirmation")

    assert list(interlock.watch("one", timeout_s=0.1)) == interlock.history("one")


def test_a_list_is_ordered_and_counted_and_refuses_an_unknown_state(interlock: Client) -> None:
    bring(interlock, "older", "awaiting_confirmation")
    bring(interlock, "newer", "awaiting_intent_confirmation")

    assert [row.id for row in interlock.list(machine="thread")] == ["older", "newer"]
    assert [row.id for row in interlock.list(machine="thread", state="awaiting_confirmation")] == [
        "older"
    ]
    assert [card.record_id for card in interlock.cards()] == ["older", "newer"]
    assert len(interlock.list(machine="thread", limit=1)) == 1
    one_each = {"awaiting_confirmation": 1, "awaiting_intent_confirmation": 1}
    assert interlock.counts(machine="thread") == RecordCounts({"thread": one_each})
    since_ms = interlock.show("older").since_ms
    for asked in OLDER:
        assert interlock.counts(**asked).machines["thread"] == {"awaiting_confirmation": 1}, asked
    until_then = interlock.counts(machine="thread", since_ms=(0, since_ms - 1))
    assert until_then.machines == {"thread": {}}
    with pytest.raises(UnknownMachineError):
        interlock.counts(machine="washing")
    with pytest.raises(CallError, match="no state 'asleep'"):
        interlock.list(machine="thread", state="asleep")


OLDER: tuple[Wanted, ...] = (
    {"state": "awaiting_confirmation"},
    {"id_prefix": "old", "text": "pap"},
    {"machine": "thread", "text": "paper", "id_prefix": "older", "created_ms": (1, 2**53)},
)


def test_the_log_has_the_actor_and_the_reason(server: EmbeddedServer, prefix: str) -> None:
    interlock = client_of(server.url, prefix)
    bring(interlock, "one", "awaiting_confirmation")
    interlock.cancel("one", reason="not needed")

    last = [line for line in interlock.history("one") if isinstance(line, Event)][-1]
    assert (last.cause.actor, last.cause.reason) == ("tester", "not needed")


@pytest.mark.parametrize(
    "call",
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
def test_a_store_that_is_down_is_one_typed_error(call: Callable[[Client], Any]) -> None:
    interlock = client_of(f"redis://127.0.0.1:{free_port()}/0", "nobody")

    with pytest.raises(StoreDownError):
        call(interlock)


def test_a_store_that_goes_down_later_is_the_same_error(
    new_server: Callable[..., EmbeddedServer],
) -> None:
    server = new_server()
    interlock = client_of(server.url, "late")
    interlock.submit(thread_payload(), machine="thread", id="one")
    server.stop()

    with pytest.raises(KernelError):
        interlock.submit(thread_payload(hold=True), machine="thread", id="two")


def test_explain_returns_what_a_trigger_would_do_without_firing_it(interlock: Client) -> None:
    interlock.submit(thread_payload(), machine="thread", id="one")
    before = interlock.show("one").version

    found = interlock.explain("one", "dismissed_by_user", {"reason": "enough"})
    assert (found.target, found.state) == ("dismissed", interlock.show("one").state)
    assert "to dismissed" in found.sentence
    refused = interlock.explain("one", "execute")
    assert (refused.target, "legal here" in refused.sentence) == ("", True)
    assert interlock.show("one").version == before


def test_what_a_card_refuses_is_explained_as_refused(interlock: Client) -> None:
    bring(interlock, "one", "awaiting_confirmation")

    assert interlock.explain("one", "edit", {"parameters": {"text": "so"}}).target
    for answer in ({"intent": "so"}, {"parameters": {"txt": "so"}}, {"by": "ann", "clear": True}):
        with pytest.raises(InvalidPayloadError):
            interlock.explain("one", "edit", answer)


def test_a_record_of_a_newer_schema_is_not_changed(interlock: Client) -> None:
    interlock.submit(thread_payload(), machine="thread", id="one")
    interlock.dispatch.client.hset(interlock.dispatch.keys.record("one"), "schema", "99")

    with pytest.raises(NewerSchemaError, match="99"):
        interlock.cancel("one")

    assert interlock.show("one").state == "awaiting_inference"


# --- events ------------------------------------------------------------------------------------


def test_the_events_of_all_records_come_each_once_also_to_who_goes_on(
    interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_streams_soon(monkeypatch)
    with getattr(interlock, "served", nullcontext()):
        following = interlock.events()
        for name in ("one", "two"):
            interlock.submit(thread_payload(), machine="thread", id=name)
        found = list(islice(following, 4))
        rest = list(islice(interlock.events(after=found[1].position), 2))
        interlock.cancel("one")
        (ended,) = islice(interlock.events(after=found[3].position, machines=["thread"]), 1)

    events = [(one.event.entity_id, one.event.version, one.event.trigger) for one in found]
    # Those of two records that were committed in one millisecond come in any order.
    assert sorted(events, key=itemgetter(0)) == [
        (name, version, trigger)
        for name in ("one", "two")
        for version, trigger in ((1, "created"), (2, "begin_inference"))
    ]
    assert found[0].event.entity_type == "thread"
    assert rest == found[2:]
    assert (ended.event.entity_id, ended.event.to_status) == ("one", "dismissed")


def test_events_from_nowhere_or_of_nothing_are_refused_at_once(interlock: Client) -> None:
    with pytest.raises(InvalidPayloadError, match="'soon' is no position"):
        interlock.events(after="soon")
    with pytest.raises(UnknownMachineError):
        interlock.events(machines=["teapot"])
    interlock.submit(thread_payload(), machine="thread", id="one")
    at = Feed(interlock.dispatch.client, interlock.dispatch.keys).newest()
    interlock.dispatch.client.unlink(interlock.dispatch.keys.feed(partition_of("one")))
    with pytest.raises(MissedError, match="`interlock events` reads what came between"):
        interlock.events(after=text_of(at))
