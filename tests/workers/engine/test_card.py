"""Cards: their questions, their answers, and the trigger of each answer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from interlock.kernel.effect import Kind
from interlock.kernel.errors import IllegalTransitionError, InvalidPayloadError
from interlock.kernel.event import Event
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import PERSON, Entry, Record, RecordId, Version
from interlock.kernel.table import Waiting
from interlock.systems.threads.client import Threads
from interlock.workers.client import Client
from interlock.workers.engine.card import cards_of_effects
from interlock.workers.gateways.card_folder import CardFolder
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.text import visible
from tests.systems.threads.threads import (
    ACTION,
    CONFIRMED,
    DECLARED,
    STARTED,
    WAITS,
    bring,
    client_of,
    proposed,
    step,
    thread_payload,
)

THREAD = MACHINES["thread"]
# As published, typed in by hand: kind of card, answer, trigger.
PUBLISHED = {
    "confirmation": {"accept": "confirmed", "edit": "edited", "redirect": "redirected"},
    "clarification": {"provide": "provided", "skip": "dismissed_by_user"},
    "consent": {"approve": "execute", "edit": "edited", "reject": "rejected"},
    "review": {
        "done": "review_accepted",
        "redirect": "redirected",
        "drop": "dismissed_by_user",
    },
    "redirect": {"provide": "provided", "skip": "dismissed_by_user"},
}
KIND = {
    "awaiting_intent_confirmation": "confirmation",
    "awaiting_context_confirmation": "confirmation",
    "awaiting_intent_clarification": "clarification",
    "awaiting_context_clarification": "clarification",
    "awaiting_action_clarification": "clarification",
    "awaiting_confirmation": "consent",
    "awaiting_review": "review",
    "awaiting_redirect": "redirect",
}
ANSWERS: dict[str, dict[str, Any]] = {
    "provided": {"text": "the thick kind"},
    "redirected": {"feedback": "not that one"},
    "execute": {},
    "confirmed": {},
    "review_accepted": {},
    "rejected": {"reason": "no"},
    "dismissed_by_user": {"reason": "no"},
}
EDITS: dict[str, dict[str, Any]] = {
    "awaiting_intent_confirmation": {"intent": "to have thick paper"},
    "awaiting_context_confirmation": {"item_ids": ["one"]},
    "awaiting_confirmation": {"parameters": {"text": "otherwise"}},
}
LEADS_TO = {
    "accept": "awaiting_inference",
    "redirect": "awaiting_inference",
    "approve": "executing",
    "reject": "dismissed",
    "done": "done",
    "drop": "dismissed",
    "skip": "dismissed",
    "provide": "awaiting_inference",
}
CHOICES = [(state, choice) for state, kind in KIND.items() for choice in PUBLISHED[kind]]


@pytest.fixture
def here(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def test_the_eight_waits_are_the_published_ones() -> None:
    assert set(KIND) == set(WAITS)
    assert len(WAITS) == 8
    assert len(CHOICES) == 20


def test_a_card_offers_exactly_the_published_answers() -> None:
    for stage in THREAD.stages:
        if str(stage.state) in KIND:
            assert isinstance(stage, Waiting)
            assert stage.card == KIND[str(stage.state)]
            assert dict(stage.affordances) == PUBLISHED[stage.card], stage.state


def test_every_other_card_is_listed_here() -> None:
    others = {
        str(stage.state): (stage.card, [name for name, _ in stage.affordances])
        for stage in THREAD.stages
        if isinstance(stage, Waiting) and stage.card and str(stage.state) not in KIND
    }

    assert others == {
        "proposed": ("proposal", ["begin", "drop"]),
        "done_cleanup_unsuccessful": ("cleanup_failure", ["retry", "accept"]),
    }


@pytest.mark.parametrize(("state", "choice"), CHOICES)
def test_every_answer_moves_the_thread(here: Client, state: str, choice: str) -> None:
    record = bring(here, "one", state)
    card = here.card("one")
    assert card is not None
    offer = next(each for each in card.affordances if each.name == choice)
    payload = EDITS[state] if choice == "edit" else ANSWERS[offer.trigger]
    jsonschema.validate(payload, dict(offer.schema))

    after = here.decide("one", choice, payload, proposal=card.proposal)

    edited = state if state == "awaiting_confirmation" else "awaiting_inference"
    assert after.state == LEADS_TO.get(choice, edited)
    assert after.version == record.version + 1
    last = here.history("one")[-1]
    assert isinstance(last, Event)
    assert last.cause.actor == "tester"


@pytest.mark.parametrize("state", WAITS)
def test_a_thread_can_be_redirected_from_every_wait(here: Client, state: str) -> None:
    record = bring(here, "one", state)

    after = here.decide("one", "redirect", {"feedback": "start over"}, proposal=record.proposal)

    assert after.state == "awaiting_inference"
    assert after.data["feedback"][-1]["text"] == "start over"
    assert after.data["target"] in state or after.data["target"] == "action"


def test_a_redirection_may_name_the_phase_to_start_from(here: Client) -> None:
    record = bring(here, "one", "awaiting_confirmation")

    payload = {"feedback": "all wrong", "target": "intent"}
    after = here.decide("one", "redirect", payload, proposal=record.proposal)

    assert after.data["target"] == "intent"
    assert set(after.data["proposals"]) == {"intent"}


@pytest.mark.parametrize("state", [*WAITS, "done_cleanup_unsuccessful"])
def test_a_card_has_its_question_and_is_plain_data(here: Client, state: str) -> None:
    record = bring(here, "one", state)

    card = here.card("one")

    assert card is not None
    assert (card.state, card.proposal) == (state, f"one:{record.version}")
    assert card.question.endswith("?")
    assert json.loads(json.dumps(card.as_data()))["title"] == "Paper"
    for offer in card.affordances:
        jsonschema.Draft202012Validator.check_schema(dict(offer.schema))


def test_a_card_shows_the_type_of_each_value_and_the_risk_in_force(here: Client) -> None:
    bring(here, "one", "awaiting_context_confirmation")
    values = {"a": 25, "b": "25", "c": True, "d": None, "e": {"f": ["1", 1.5]}, "g": "x" * 200}
    claimed = {**ACTION, "parameters": values, "irreversibility": "low"}
    declared = {**DECLARED, "irreversibility": "high"}
    for trigger, payload in (CONFIRMED, STARTED, proposed(claimed, declared=declared)):
        step(here, "one", trigger, payload)

    card = here.card("one")

    assert card is not None
    shown = f"a=25, b='25', c=True, d=None, e={{'f': ['1', 1.5]}}, g='{'x' * 59}…{'x' * 58}'"
    assert card.question == f"May this be done: jot({shown})?"
    assert card.proposed["payload"]["irreversibility"] == "high"
    assert card.proposed["payload"]["parameters"] == values


def test_texts_from_outside_are_visible_in_a_card_and_its_file(
    here: Client, tmp_path: Path
) -> None:
    hostile = "x\x1b[2K\u202e\x9b\nforged"
    bring(here, "one", "awaiting_context_confirmation", title=hostile)
    action = {**ACTION, "kind": "clarification", "blocked_on": hostile}
    for trigger, payload in (CONFIRMED, STARTED, proposed(action, declared=DECLARED)):
        step(here, "one", trigger, payload)
    card = here.card("one")
    assert card is not None

    CardFolder(tmp_path).show(card.as_data(), "key")
    written = (tmp_path / "one.json").read_text("utf-8")

    assert (card.title, card.question) == (
        r"x\x1b[2K\u202e\x9b",
        r"x\x1b[2K\u202e\x9b forged",
    )
    assert visible(written) == written
    assert json.loads(written)["proposed"]["payload"]["blocked_on"] == hostile


@pytest.mark.parametrize(
    ("state", "choice", "payload", "problem"),
    [
        ("awaiting_confirmation", "approve", {"sure": True}, InvalidPayloadError),
        ("awaiting_confirmation", "edit", {}, InvalidPayloadError),
        ("awaiting_confirmation", "edit", {"intent": "other"}, InvalidPayloadError),
        ("awaiting_intent_confirmation", "edit", {"intent": 3}, InvalidPayloadError),
        ("awaiting_intent_confirmation", "edit", {"item_ids": []}, InvalidPayloadError),
        ("awaiting_intent_clarification", "provide", {}, InvalidPayloadError),
        ("awaiting_intent_clarification", "provide", {"text": "  "}, InvalidPayloadError),
        ("awaiting_redirect", "redirect", {"target": "dinner"}, InvalidPayloadError),
    ],
)
def test_an_answer_is_typed(
    here: Client, state: str, choice: str, payload: dict[str, Any], problem: type[Exception]
) -> None:
    record = bring(here, "one", state)

    with pytest.raises(problem):
        here.decide("one", choice, payload, proposal=record.proposal)

    assert here.show("one").version == record.version


def test_a_thread_that_waits_for_no_person_has_no_card(here: Client) -> None:
    bring(here, "inferring", "awaiting_inference")
    bring(here, "running", "executing")
    bring(here, "over", "awaiting_confirmation")
    here.decide("over", "reject", proposal=here.show("over").proposal)

    assert [here.card(thread_id) for thread_id in ("inferring", "running", "over")] == [None] * 3
    assert here.cards() == []


def test_a_held_thread_asks_whether_to_begin(here: Client) -> None:
    here.submit(thread_payload(hold=True), machine="thread", id="held")
    card = here.card("held")

    assert card is not None
    assert [each.name for each in card.affordances] == ["begin", "drop"]
    assert here.decide("held", "begin", proposal=card.proposal).state == "awaiting_inference"


@pytest.mark.parametrize("state", [state for state in WAITS if state != "awaiting_review"])
def test_an_expiry_ends_a_thread_and_never_approves(state: str) -> None:
    stage = THREAD.stage(state)
    expiry = stage.timer("expiry")

    assert expiry is not None
    assert (expiry.delay({}), expiry.delay({"expires_s": 60})) == (None, 60_000)
    assert [str(row.target) for row in THREAD.rows(state, "timeout")] == ["dismissed"]


def test_only_a_review_of_finished_work_may_time_out_to_done() -> None:
    approving = {
        str(row.source)
        for row in THREAD.transitions
        if row.trigger == "timeout" and str(row.target) != "dismissed"
    }

    assert approving == {"awaiting_review"}


def test_nothing_can_be_answered_after_a_handoff(here: Client) -> None:
    proposal = bring(here, "one", "awaiting_confirmation").proposal

    after = Threads(here).handoff("one", to="the office", kind="person", reference="ticket 12")

    assert after.state == "handed_off"
    assert after.data["handed_off"] == {
        "to": "the office",
        "kind": "person",
        "reference": "ticket 12",
    }
    with pytest.raises(IllegalTransitionError):
        here.fire("one", "execute")
    assert here.card("one") is None
    assert not here.show("one").timers
    assert {entry.name for entry in here.show("one").entries} <= {"resolution"}, "card withdrawn"
    assert proposal != after.proposal


@pytest.mark.parametrize(
    "payload",
    [
        {"to": "", "kind": "person", "reference": "x"},
        {"to": "Ann", "kind": "cat", "reference": "x"},
        {"to": "Ann", "kind": "system", "reference": ""},
    ],
)
def test_a_handoff_names_who_and_where(here: Client, payload: dict[str, str]) -> None:
    bring(here, "one", "awaiting_confirmation")

    with pytest.raises(InvalidPayloadError):
        Threads(here).handoff("one", **payload)


def thread_with(*, state: str, holder: str = "") -> Record:
    """Return a thread that has ended and whose effect `resolution` has failed 20 times."""
    entry = Entry(
        suffix="3.0:abc",
        name="resolution",
        kind=Kind.TRANSITION,
        state=state,
        token="",
        holder=holder,
        attempts=20,
        attempts_max=20,
        lease_until=0,
        kill_by=0,
        no_restart=False,
    )
    data = {"inciting": {"title": "Paper"}}
    return Record(RecordId("one"), "thread", "done", Version(3), data, entries=(entry,))


def test_an_effect_that_was_given_up_has_a_card_in_any_state() -> None:
    machine, record = MACHINES["thread"], thread_with(state="quarantined")

    (card,) = cards_of_effects(machine, record, {"3.0:abc": "OSError: no disk"})

    assert (card.kind, [each.name for each in card.affordances]) == ("quarantine", ["retry"])
    assert card.question.startswith("Given up: resolution (after 20 attempts): OSError: no disk. ")
    assert not [*cards_of_effects(machine, replace(record, entries=()), {})]


def test_a_card_says_what_is_in_the_way_of_an_effect_or_where_to_read_it() -> None:
    machine, record = MACHINES["thread"], thread_with(state="owed", holder=PERSON)

    (card,) = cards_of_effects(machine, record, {"3.0:abc": "file a changed"})
    (without_error,) = cards_of_effects(machine, record, {})

    assert card.question.startswith("The resolution waits: file a changed. It is tried again")
    assert without_error.question.startswith(
        "Something is in the way of the resolution; `interlock history one` says what. It is tried"
    )
    assert not [*cards_of_effects(machine, replace(record, paused=True), {})]
