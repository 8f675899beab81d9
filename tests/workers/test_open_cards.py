"""Open cards: which are listed, who is on them, and until when they can be answered."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, example, given, settings

from interlock.kernel.errors import (
    CallError,
    InvalidPayloadError,
    StaleDecisionError,
    UnknownMachineError,
)
from interlock.kernel.event import Note
from interlock.kernel.record import partition_of
from interlock.systems.jobs.client import Graphs
from interlock.systems.threads.machines.thread.table import THREAD
from interlock.workers.api.app import create_app
from interlock.workers.client import Client
from interlock.workers.config import SettingsError, read_settings
from interlock.workers.engine.card import CardEscalation
from interlock.workers.engine.escalation import check_escalations
from interlock.workers.engine.open_cards import WantedCards
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.doctor import unloaded_proposals
from interlock.workers.remote.client import HttpClient
from tests.damage import chances, torn
from tests.systems.threads.threads import bring, client_of, obstruct, thread_payload

BOTH = pytest.mark.parametrize("over_http", [False, True])


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix, auth="none")


def caller(on_store: Client, *, over_http: bool) -> Client:
    """Return the client itself, or one over HTTP with the same name."""
    if not over_http:
        return on_store
    http = TestClient(create_app(on_store), base_url="http://127.0.0.1")
    return cast("Client", HttpClient("", actor=on_store.actor, http=cast("Any", http)))


@BOTH
def test_a_card_is_claimed_handed_over_and_released_and_the_log_has_by_whom(
    interlock: Client,
    over_http: bool,  # noqa: FBT001
) -> None:
    record = bring(interlock, "paper", "awaiting_confirmation")
    client = caller(interlock, over_http=over_http)

    (claimed,) = client.claim_card("paper", proposal=record.proposal, op_id="once")
    client.claim_card("paper", proposal=record.proposal, op_id="once")
    (handed,) = client.claim_card("paper", proposal=record.proposal, holder="bob")
    bobs = client.cards_page(holder="bob").cards
    (released,) = client.release_card("paper", proposal=record.proposal)

    assert claimed.claim is not None
    assert (claimed.claim.holder, claimed.claim.by) == ("tester", "tester")
    assert handed.claim is not None
    assert (handed.claim.holder, handed.claim.by) == ("bob", "tester")
    assert [card.record_id for card in bobs] == ["paper"]
    assert released.claim is None
    assert client.cards_page(holder="bob").cards == ()
    notes = [line for line in interlock.history("paper") if isinstance(line, Note)]
    said = [note for note in notes if note.kind in ("card_claimed", "card_released")]
    assert [(note.detail["holder"], note.detail["actor"]) for note in said] == [
        ("tester", "tester"),
        ("bob", "tester"),
        ("", "tester"),
    ]
    assert interlock.show("paper").version == record.version


def test_a_claim_ends_with_its_question_and_stops_nobody_from_answering(interlock: Client) -> None:
    record = bring(interlock, "paper", "awaiting_confirmation")
    interlock.claim_card("paper", proposal=record.proposal, holder="bob")

    interlock.decide("paper", "redirect", {"target": "action"}, proposal=record.proposal)

    with pytest.raises(StaleDecisionError):
        interlock.claim_card("paper", proposal=record.proposal)
    assert interlock.open_cards.dispatch.card_reads.claims([interlock.show("paper")]) == {}


def test_the_state_of_the_question_is_tested_in_the_step_that_writes_the_claim(
    interlock: Client,
) -> None:
    record = bring(interlock, "paper", "awaiting_confirmation")
    interlock.decide("paper", "reject", {}, proposal=record.proposal)

    with pytest.raises(StaleDecisionError):  # `record` is as a caller read it before
        interlock.open_cards.claim(record, record.proposal, "ann", interlock.call(None, ""))


def test_the_card_of_an_effect_is_claimed_by_its_own_name(interlock: Client) -> None:
    interlock.submit(thread_payload(), machine="thread", id="paper")
    obstruct(interlock, "paper")
    (card,) = interlock.cards_of("paper")

    (claimed,) = interlock.claim_card("paper", proposal=card.proposal)

    assert claimed.claim is not None
    with pytest.raises(StaleDecisionError):
        interlock.claim_card("paper", proposal=interlock.show("paper").proposal)


@pytest.mark.parametrize("holder", ["a\nb", "x" * 101, " ann", "\u202eann"])
def test_a_holder_is_a_name_that_people_can_read(interlock: Client, holder: str) -> None:
    record = bring(interlock, "paper", "awaiting_confirmation")

    with pytest.raises(InvalidPayloadError, match="visible letters"):
        interlock.claim_card("paper", proposal=record.proposal, holder=holder)


def test_a_card_for_some_is_handed_to_none_but_them(interlock: Client) -> None:
    graphs = Graphs(interlock)
    graphs.open("nightly")
    job = {"hold": True, "stewards": ["ann"], "phases": [{"worker": {"command": "true"}}]}
    interlock.submit(job, id="nightly/tidy", machine="job")
    (card,) = interlock.cards_of("nightly/tidy")

    with pytest.raises(InvalidPayloadError, match="bob may not answer this card; these may: ann"):
        interlock.claim_card("nightly/tidy", proposal=card.proposal, holder="bob")
    (claimed,) = interlock.claim_card("nightly/tidy", proposal=card.proposal, holder="ann")
    assert claimed.claim is not None


@BOTH
def test_cards_are_found_by_machine_kind_tree_words_and_tags(
    interlock: Client,
    over_http: bool,  # noqa: FBT001
) -> None:
    bring(
        interlock, "paper", "awaiting_confirmation", title="Buy paper towels", tags=["Home", "eu"]
    )
    bring(
        interlock,
        "dentist",
        "awaiting_intent_clarification",
        title="Call the dentist",
        tags=["home"],
    )
    client = caller(interlock, over_http=over_http)

    def found(**wanted: Any) -> list[str]:
        return [card.record_id for card in client.cards_page(**wanted).cards]

    assert found(machine="thread") == ["paper", "dentist"]
    assert found(machine="task") == []
    assert found(kind="consent") == ["paper"]
    assert found(tree="dentist") == ["dentist"]
    assert found(text="TOWELS buy") == ["paper"]
    assert found(text="towels dentist") == []
    assert found(tag="home") == ["paper", "dentist"]
    assert found(tag="HOME,eu") == ["paper"]
    assert found(tag="om") == []
    assert client.cards(limit=1, tag="eu")[0].tags == ("Home", "eu")
    commas: tuple[WantedCards, ...] = ({"tag": " , "}, {"escalated": ","})
    for wanted in commas:
        with pytest.raises(CallError, match="names nothing; write names with commas between"):
            found(**wanted)
        with pytest.raises(CallError, match="names nothing"):
            interlock.open_cards.due(1, **wanted)
    with pytest.raises(UnknownMachineError):
        found(machine="washing")


def test_pages_have_each_wanted_card_once_also_where_many_began_to_wait_at_the_same_time(
    interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, keys = [f"r{number}" for number in range(6)], interlock.dispatch.keys
    for name in names:
        title = "Tea" if name == "r0" else "Paper"
        interlock.submit({**thread_payload(title), "hold": True}, machine="thread", id=name)
        interlock.dispatch.client.zadd(keys.waits(partition_of(name)), {name: 5})

    cursor, pages = "", list[list[str]]()
    while cursor or not pages:
        page = interlock.cards_page(limit=2, cursor=cursor, text="paper")
        pages.append([card.record_id for card in page.cards])
        cursor = page.cursor

    assert pages == [names[1:3], names[3:5], names[5:]]
    monkeypatch.setattr("interlock.workers.engine.open_cards.SCANNED_MAX", 2)
    some = interlock.cards(limit=4, text="paper")
    assert [card.record_id for card in some] == names[1:5], "they take more than one page"


def test_a_record_whose_tags_cannot_be_read_hides_no_other(interlock: Client) -> None:
    bring(interlock, "bad", "awaiting_confirmation")
    bring(interlock, "good", "awaiting_confirmation", tags=["eu"])
    thread = replace(THREAD, tags=lambda data: data["tags"] or data["nothing"])
    open_cards = replace(interlock.open_cards, machines={"thread": thread})

    assert [record.id for record in open_cards.waiting(9, tag="eu")[0]] == ["good"]


@BOTH
def test_a_card_that_waits_too_long_is_escalated_to_whom_the_row_of_its_kind_names(
    server: EmbeddedServer,
    prefix: str,
    over_http: bool,  # noqa: FBT001
) -> None:
    rows = {"consent": (600, "operator"), "*": (60, "ann")}
    interlock = client_of(server.url, prefix, auth="none", escalations=rows)
    bring(interlock, "paper", "awaiting_confirmation")
    bring(interlock, "dentist", "awaiting_intent_clarification")
    client, keys = caller(interlock, over_http=over_http), interlock.dispatch.keys

    def escalated(names: str) -> list[str]:
        return [card.record_id for card in client.cards_page(escalated=names).cards]

    assert escalated("*") == []
    for record_id in ("paper", "dentist"):  # as if it had begun to ask five minutes ago
        key = keys.waits(partition_of(record_id))
        interlock.dispatch.client.zincrby(key, -300_000, record_id)

    due = {card.record_id: card.escalation for card in client.cards()}
    asked_ms = interlock.show("paper").since_ms - 300_000
    assert due["paper"] == CardEscalation(asked_ms + 600_000, "operator")
    assert escalated("*") == escalated("bob, ann") == ["dentist"]
    assert escalated("operator") == []


@pytest.mark.parametrize(
    ("rows", "problem"),
    [("constent=60/ann", "no card is of the kind 'constent'"), ("consent=60", "kind=SECONDS/NAME")],
)
def test_a_wrong_row_of_escalations_is_named(rows: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        check_escalations(read_settings({"INTERLOCK_ESCALATIONS": rows}))


@BOTH
def test_a_card_says_until_when_and_what_happens_then(
    interlock: Client,
    over_http: bool,  # noqa: FBT001
) -> None:
    bring(interlock, "soon", "awaiting_confirmation", expires_s=600)
    bring(interlock, "later", "awaiting_confirmation", expires_s=864_000)
    bring(interlock, "never", "awaiting_confirmation")
    client, now_ms = caller(interlock, over_http=over_http), interlock.now_ms()

    found = {card.record_id: card.deadline for card in client.cards()}

    soon = found["soon"]
    assert soon is not None
    assert (soon.trigger, soon.target) == ("timeout", "dismissed")
    assert now_ms < soon.due_ms <= now_ms + 600_000
    assert found["never"] is None
    due = interlock.open_cards.due(now_ms + 86_400_000)
    assert [card.record_id for card in due] == ["soon"]
    interlock.pause("soon")
    assert {card.record_id: card.deadline for card in client.cards()}["soon"] is None


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances)
@example(chance=("version", "x"))
@example(chance=("state", "of another table"))
@example(chance=("machine", "of another deployment"))
@example(chance=("data", '{"proposals": 3}'))
def test_a_damaged_record_hides_no_other(
    interlock: Client, chance: Random | tuple[str, str]
) -> None:
    if not interlock.page(limit=9).rows:
        for record_id in ("bad", "good"):
            bring(interlock, record_id, "awaiting_confirmation")
    store: Any = interlock.dispatch.client
    key = interlock.dispatch.keys.record("bad")
    whole = store.hgetall(key)
    if isinstance(chance, tuple):
        store.hset(key, *chance)
    else:
        field = chance.choice(sorted(whole))
        store.hset(key, field, torn(whole[field], chance))

    every: tuple[WantedCards, ...] = ({}, {"kind": "consent"}, {"machine": "thread"})
    for wanted in every:
        assert "good" in {one.record_id for one in interlock.cards_page(**wanted).cards}
    assert "good" in {one.id for one in interlock.page(limit=9).rows}
    unloaded_proposals(interlock.dispatch)  # `interlock doctor` reads them too
    store.hset(key, mapping=whole)
