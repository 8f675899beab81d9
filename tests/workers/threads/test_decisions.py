"""Firing and deciding through the client: what is stale, what is edited, what may be repeated."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.errors import (
    CallError,
    IllegalTransitionError,
    InvalidIdError,
    InvalidPayloadError,
    OpIdReusedError,
    StaleDecisionError,
    UnknownRecordError,
    UnknownTriggerError,
)
from interlock.workers.client import Client
from interlock.workers.gateways.capabilities.registry import (
    InvalidParametersError,
    UnknownCapabilityError,
)
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.threads.client import Threads
from tests.workers.threads.threads import bring, client_of


@pytest.fixture
def here(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def test_a_trigger_fired_twice_with_one_op_id_is_fired_once(here: Client) -> None:
    bring(here, "one", "awaiting_intent_confirmation")

    first = here.fire("one", "cleanup_requested", op_id="mine")
    again = here.fire("one", "cleanup_requested", op_id="mine")

    assert first.version == again.version
    with pytest.raises(OpIdReusedError):
        here.fire("one", "dismissed_by_user", op_id="mine")


@pytest.mark.parametrize(
    ("record_id", "trigger", "payload", "problem"),
    [
        ("nobody", "confirmed", {}, UnknownRecordError),
        ("one", "exploded", {}, UnknownTriggerError),
        ("one", "execute", {}, IllegalTransitionError),
        ("one", "confirmed", {"very": True}, InvalidPayloadError),
        ("not an id", "confirmed", {}, InvalidIdError),
    ],
)
def test_a_wrong_call_is_one_clear_error_and_changes_nothing(
    here: Client, record_id: str, trigger: str, payload: dict[str, Any], problem: type[Exception]
) -> None:
    before = bring(here, "one", "awaiting_intent_confirmation")

    with pytest.raises(problem):
        here.fire(record_id, trigger, payload)

    assert here.show("one") == before


def test_a_stale_decision_is_refused_and_told_the_current_proposal(here: Client) -> None:
    seen = bring(here, "one", "awaiting_confirmation").proposal
    words = {"parameters": {"text": "otherwise"}}
    current = here.decide("one", "edit", words, proposal=seen)

    with pytest.raises(StaleDecisionError) as refusal:
        here.decide("one", "approve", proposal=seen)

    assert (refusal.value.seen, refusal.value.current) == (seen, current.proposal)
    assert current.proposal in str(refusal.value)
    assert here.show("one").state == "awaiting_confirmation"


@pytest.mark.parametrize("proposal", ["", "one", "one:", "one:x", "two:9", "one:99", "one:-1"])
def test_a_decision_names_the_proposal_that_it_saw(here: Client, proposal: str) -> None:
    bring(here, "one", "awaiting_confirmation")

    with pytest.raises(StaleDecisionError):
        here.decide("one", "approve", proposal=proposal)


def test_a_decision_after_the_end_is_stale(here: Client) -> None:
    seen = bring(here, "one", "awaiting_confirmation").proposal
    here.decide("one", "reject", proposal=seen)

    with pytest.raises(StaleDecisionError) as refusal:
        here.decide("one", "approve", proposal=seen)

    assert refusal.value.current is None


def test_a_decision_repeated_with_its_op_id_gets_the_first_outcome(here: Client) -> None:
    seen = bring(here, "one", "awaiting_confirmation").proposal

    first = here.decide("one", "approve", proposal=seen, op_id="mine")
    again = here.decide("one", "approve", proposal=seen, op_id="mine")

    assert (first.state, again.version) == ("executing", first.version)


def test_a_choice_that_is_not_offered_is_told_what_is(here: Client) -> None:
    record = bring(here, "one", "awaiting_confirmation")

    with pytest.raises(CallError, match="there are: approve, edit, reject"):
        here.decide("one", "accept", proposal=record.proposal)


def test_an_edited_action_is_checked_and_declared_by_its_capability(here: Client) -> None:
    record = bring(here, "one", "awaiting_confirmation")

    words = {"capability": "jot_once", "parameters": {"text": "new"}}
    after = here.decide("one", "edit", words, proposal=record.proposal)

    kept = after.data["proposals"]["action"]
    assert kept["payload"]["parameters"] == {"text": "new"}
    assert kept["declared"]["idempotent"] is False
    assert kept["by"] == "person"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"capability": "jott", "parameters": {}}, UnknownCapabilityError),
        ({"parameters": {"text": 3}}, InvalidParametersError),
        ({"parameters": {"txt": "x"}}, InvalidParametersError),
        ({"parameters": {"record_id": "another"}}, InvalidParametersError),
        ({"parameters": {"key": "mine", "text": "x"}}, InvalidParametersError),
        ({"parameters": {"text": "x"}, "declared": {"idempotent": True}}, InvalidPayloadError),
        ({"declared": {"idempotent": True}}, InvalidPayloadError),
    ],
)
def test_an_edit_that_cannot_run_is_refused_before_it_is_accepted(
    here: Client, words: dict[str, Any], problem: type[Exception]
) -> None:
    record = bring(here, "one", "awaiting_confirmation")

    with pytest.raises(problem):
        here.decide("one", "edit", words, proposal=record.proposal)

    assert here.show("one").version == record.version


def test_an_answer_with_a_whole_action_goes_to_consent(here: Client) -> None:
    record = bring(here, "one", "awaiting_action_clarification")

    words = {"capability": "jot", "parameters": {"text": "so"}}
    after = here.decide("one", "provide", words, proposal=record.proposal)

    assert after.state == "awaiting_confirmation"
    assert after.data["proposals"]["action"]["declared"]["idempotent"] is True


def test_a_cleared_action_cannot_be_approved(here: Client) -> None:
    record = bring(here, "one", "awaiting_confirmation")
    cleared = here.decide("one", "edit", {"clear": True}, proposal=record.proposal)

    with pytest.raises(CallError, match="no action to run"):
        here.decide("one", "approve", proposal=cleared.proposal)


def test_a_matter_is_split_at_its_gate(here: Client) -> None:
    record = bring(here, "one", "awaiting_confirmation")

    after = Threads(here).decompose(
        "one", [{"title": "a"}, {"title": "b"}], proposal=record.proposal
    )

    assert after.state == "monitoring"
    assert [child["title"] for child in after.data["children"]] == ["a", "b"]


@pytest.mark.parametrize("proposal", ["", "one", "one:x"])
def test_a_split_names_the_proposal_too(here: Client, proposal: str) -> None:
    bring(here, "one", "awaiting_confirmation")

    with pytest.raises(StaleDecisionError):
        Threads(here).decompose("one", [{"title": "a"}], proposal=proposal)
