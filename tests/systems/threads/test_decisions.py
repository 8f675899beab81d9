"""Triggers and decisions through the client: stale ones, edits and repetitions."""

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
from interlock.systems.threads.client import Threads
from interlock.workers.client import Client
from interlock.workers.gateways.capabilities.registry import (
    InvalidParametersError,
    UnknownCapabilityError,
)
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import bring, client_of


@pytest.fixture
def client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def test_a_trigger_fired_twice_with_one_op_id_is_fired_once(client: Client) -> None:
    bring(client, "one", "awaiting_intent_confirmation")

    first = client.fire("one", "cleanup_requested", op_id="mine")
    again = client.fire("one", "cleanup_requested", op_id="mine")

    assert first.version == again.version
    with pytest.raises(OpIdReusedError):
        client.fire("one", "dismissed_by_user", op_id="mine")


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
    client: Client, record_id: str, trigger: str, payload: dict[str, Any], problem: type[Exception]
) -> None:
    before = bring(client, "one", "awaiting_intent_confirmation")

    with pytest.raises(problem):
        client.fire(record_id, trigger, payload)

    assert client.show("one") == before


def test_a_stale_decision_is_refused_with_the_current_proposal(client: Client) -> None:
    seen = bring(client, "one", "awaiting_confirmation").proposal
    answer = {"parameters": {"text": "otherwise"}}
    current = client.decide("one", "edit", answer, proposal=seen)

    with pytest.raises(StaleDecisionError) as refusal:
        client.decide("one", "approve", proposal=seen)

    assert (refusal.value.seen, refusal.value.current) == (seen, current.proposal)
    assert current.proposal in str(refusal.value)
    assert client.show("one").state == "awaiting_confirmation"


@pytest.mark.parametrize("proposal", ["", "one", "one:", "one:x", "two:9", "one:99", "one:-1"])
def test_a_decision_names_the_proposal_that_it_saw(client: Client, proposal: str) -> None:
    bring(client, "one", "awaiting_confirmation")

    with pytest.raises(StaleDecisionError):
        client.decide("one", "approve", proposal=proposal)


def test_a_decision_after_the_end_is_stale(client: Client) -> None:
    seen = bring(client, "one", "awaiting_confirmation").proposal
    client.decide("one", "reject", proposal=seen)

    with pytest.raises(StaleDecisionError) as refusal:
        client.decide("one", "approve", proposal=seen)

    assert refusal.value.current is None


def test_a_decision_repeated_with_its_op_id_gets_the_first_outcome(client: Client) -> None:
    seen = bring(client, "one", "awaiting_confirmation").proposal

    first = client.decide("one", "approve", proposal=seen, op_id="mine")
    again = client.decide("one", "approve", proposal=seen, op_id="mine")

    assert (first.state, again.version) == ("executing", first.version)


def test_a_choice_that_is_not_offered_is_refused_with_the_offered_ones(client: Client) -> None:
    record = bring(client, "one", "awaiting_confirmation")

    with pytest.raises(CallError, match="there are: approve, edit, reject"):
        client.decide("one", "accept", proposal=record.proposal)


def test_an_edited_action_is_checked_and_declared_by_its_capability(client: Client) -> None:
    record = bring(client, "one", "awaiting_confirmation")

    answer = {"capability": "jot_once", "parameters": {"text": "new"}}
    after = client.decide("one", "edit", answer, proposal=record.proposal)

    action = after.data["proposals"]["action"]
    assert action["payload"]["parameters"] == {"text": "new"}
    assert action["declared"]["idempotent"] is False
    assert action["by"] == "person"


@pytest.mark.parametrize(
    ("answer", "problem"),
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
    client: Client, answer: dict[str, Any], problem: type[Exception]
) -> None:
    record = bring(client, "one", "awaiting_confirmation")

    with pytest.raises(problem):
        client.decide("one", "edit", answer, proposal=record.proposal)

    assert client.show("one").version == record.version


def test_an_answer_with_a_whole_call_runs(client: Client) -> None:
    record = bring(client, "one", "awaiting_action_clarification")

    answer = {"capability": "jot", "parameters": {"text": "so"}}
    after = client.decide("one", "provide", answer, proposal=record.proposal)

    assert after.state == "executing"
    assert after.data["proposals"]["action"]["declared"]["idempotent"] is True


def test_a_cleared_action_cannot_be_approved(client: Client) -> None:
    record = bring(client, "one", "awaiting_confirmation")
    cleared = client.decide("one", "edit", {"clear": True}, proposal=record.proposal)

    with pytest.raises(CallError, match="no action to run"):
        client.decide("one", "approve", proposal=cleared.proposal)


def test_a_thread_is_split_at_its_gate(client: Client) -> None:
    record = bring(client, "one", "awaiting_confirmation")

    after = Threads(client).decompose(
        "one", [{"title": "a"}, {"title": "b"}], proposal=record.proposal
    )

    assert after.state == "monitoring"
    assert [child["title"] for child in after.data["children"]] == ["a", "b"]


@pytest.mark.parametrize("proposal", ["", "one", "one:x"])
def test_a_split_names_the_proposal_too(client: Client, proposal: str) -> None:
    bring(client, "one", "awaiting_confirmation")

    with pytest.raises(StaleDecisionError):
        Threads(client).decompose("one", [{"title": "a"}], proposal=proposal)
