"""Whole threads with a scripted provider, which uses the OpenAI protocol and fails at times.

Most tests share a deployment and its provider; each names its threads differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment
from tests.fakes.openai_server import OpenAIServer, hangs, refuses, says, truncated_json

PRICED = "openai:gpt-4o-mini"
MANY = 20  # replies: more than a failing thread asks for


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture(scope="module")
def shared_variables(shared_provider: OpenAIServer) -> dict[str, str]:
    return {**settings(shared_provider), "INTERLOCK_MODEL_ATTEMPTS_MAX": "2"}


@pytest.fixture
def provider(shared_provider: OpenAIServer) -> OpenAIServer:
    shared_provider.reset()
    return shared_provider


@pytest.fixture
def deployment(joint_deployment: Deployment) -> Deployment:
    return joint_deployment


def settings(provider: OpenAIServer) -> dict[str, str]:
    """Return the variables with which a deployment asks this provider."""
    return {
        "INTERLOCK_MODEL": PRICED,
        "INTERLOCK_MODEL_BASE_URL": provider.url,
        "INTERLOCK_MODEL_API_KEY": "no-secret",
    }


def thread_payload(policy: Any = "end_to_end", **fields: Any) -> dict[str, Any]:
    wanted = {"capability": "jot", "parameters": {"text": "hello"}, **fields}
    return {"inciting": {"title": "write it down", "fields": wanted}, "policy": policy}


def test_each_phase_is_asked_once_with_the_results_of_the_phases_before(
    deployment: Deployment, provider: OpenAIServer
) -> None:
    deployment.client.submit(thread_payload(), machine="thread", id="whole")

    record = deployment.ends("whole")[0]

    assert record.state == "done"
    intent, context, action = provider.asked
    assert [asked.fields >= {"kind"} for asked in provider.asked] == [False, False, True]
    assert "write it down" in intent.prompt
    assert context.data("confirmed intent") or "write it down" in context.prompt
    assert "jot" in action.prompt
    assert record.counters["spent"] == record.counters["tree.spent"] > 0
    assert record.counters.get("reserved.spent", 0) == 0


def test_one_call_answers_all_three_phases_where_the_policy_wants_that(
    deployment: Deployment, provider: OpenAIServer
) -> None:
    policy = {"composition": "end_to_end", "combined_inference": True}
    deployment.client.submit(thread_payload(policy), machine="thread", id="combined")

    record = deployment.ends("combined")[0]

    assert (record.state, len(provider.asked)) == ("done", 1)
    costs = [event.deltas for event in deployment.events("combined") if event.deltas]
    assert len(costs) == 1


def test_a_provider_that_recovers_costs_time_and_no_transition(
    new_deployment: NewDeployment, provider: OpenAIServer
) -> None:
    provider.then(refuses(429, retry_after="0"), refuses(529), refuses(500))
    deployment = new_deployment(**settings(provider)).full()
    deployment.client.submit(thread_payload(), machine="thread", id="patient")

    record = deployment.ends("patient")[0]

    assert record.state == "done"
    failures = [event for event in deployment.events("patient") if "failed" in event.trigger]
    assert (failures, len(provider.asked)) == ([], 6)


FAULTS: Mapping[str, tuple[Any, str]] = {
    "an outage": (refuses(500), "provider_error"),
    "a wrong answer": (says({"nonsense": True}), "invalid_output"),
    "a torn answer": (truncated_json(), "provider_error"),
}


@pytest.mark.parametrize(("fault", "code"), FAULTS.values(), ids=FAULTS)
def test_a_model_that_fails_leaves_a_question_and_never_an_empty_success(
    deployment: Deployment, provider: OpenAIServer, fault: Any, code: str
) -> None:
    provider.then(*[fault] * MANY)

    asks_a_person(deployment, f"failing-{list(FAULTS.values()).index((fault, code))}", code)


def test_a_model_that_is_silent_leaves_a_question(
    new_deployment: NewDeployment, provider: OpenAIServer
) -> None:
    provider.then(*[hangs()] * MANY)
    quick = {"INTERLOCK_MODEL_TIMEOUT_S": "2", "INTERLOCK_MODEL_ATTEMPTS_MAX": "2"}

    asks_a_person(new_deployment(**settings(provider), **quick).full(), "silent", "timeout")


def asks_a_person(deployment: Deployment, thread_id: str, code: str) -> None:
    """Submit a thread, and wait until it asks a person because its model failed with this code."""
    deployment.client.submit(thread_payload(), machine="thread", id=thread_id)
    record = deployment.reaches(thread_id, "awaiting_intent_clarification")
    assert record.data["failure"]["code"] == code
    assert "intent" not in record.data["proposals"]
    card = deployment.client.card(thread_id)
    assert card is not None
    assert record.data["failure"]["detail"] in card.question


def test_the_answer_of_a_person_reaches_the_next_question(
    deployment: Deployment, provider: OpenAIServer
) -> None:
    provider.then(says({"intent": "something", "confidence": 0.1}))
    deployment.client.submit(thread_payload(), machine="thread", id="asked")
    card = deployment.reaches("asked", "awaiting_intent_clarification")

    deployment.client.decide("asked", "provide", {"text": "the blue one"}, proposal=card.proposal)
    # What was made of the answer is shown before it runs.
    shown = deployment.reaches("asked", "awaiting_confirmation")
    deployment.client.decide("asked", "approve", proposal=shown.proposal)
    deployment.ends("asked")

    assert "the blue one" in provider.asked[1].prompt


def test_a_model_is_told_what_failed_and_cannot_have_it_run_again(
    deployment: Deployment, provider: OpenAIServer
) -> None:
    low = {"irreversibility": "low", "regret_potential": "low", "risk_amplifier": False}
    broken = {"kind": "standard", "capability": "broken", "parameters": {"why": "no ink"}, **low}
    jot = {**broken, "capability": "jot", "parameters": {"text": "no ink"}}
    provider.then(says({**broken, "confidence": 1.0}), says({**jot, "confidence": 1.0}))
    given = {"intent": "print", "item_ids": [], "action": broken}
    deployment.client.submit({**thread_payload(), "given": given}, machine="thread", id="failed")

    def decide(state: str, choice: str, **answer: Any) -> None:
        proposal = deployment.reaches("failed", state).proposal
        deployment.client.decide("failed", choice, answer, proposal=proposal)

    decide("awaiting_redirect", "provide", text="with ink")
    decide("awaiting_action_clarification", "provide", text="only write it down")
    decide("awaiting_confirmation", "approve")
    record = deployment.ends("failed")[0]

    assert record.state == "done"
    asked = [one.data("turned down") for one in provider.asked]
    call = {"capability": "broken", "parameters": {"why": "no ink"}, "why": "it failed: no ink."}
    assert asked == [[call], [call]]
    started = deployment.notes("failed", "execution_started")
    assert [note.detail["capability"] for note in started] == ["broken", "jot"]


def test_a_call_that_the_budget_does_not_allow_is_never_made(
    deployment: Deployment, provider: OpenAIServer
) -> None:
    policy = {"composition": "end_to_end", "budget_micro": 10}
    deployment.client.submit(thread_payload(policy), machine="thread", id="poor")

    record = deployment.reaches("poor", "awaiting_intent_clarification")

    assert record.data["failure"]["code"] == "budget_exceeded"
    assert (provider.asked, record.counters.get("spent", 0)) == ([], 0)


def test_children_spend_from_one_cap_with_their_parent(
    deployment: Deployment, provider: OpenAIServer
) -> None:
    part = {"title": "write it down", "fields": thread_payload()["inciting"]["fields"]}
    policy = {"composition": "end_to_end", "budget_micro": 10}
    family = {"inciting": {"title": "two"}, "policy": policy, "children": [part, part]}
    deployment.client.submit(family, machine="thread", id="family")
    deployment.reaches("family", "monitoring")
    children = deployment.sees(
        lambda: len(found := deployment.client.dispatch.views.children("family")) == 2 and found,
        what="both children are created",
    )

    for child in children:
        record = deployment.reaches(child, "awaiting_intent_clarification")
        assert record.data["failure"]["code"] == "budget_exceeded"
        assert "cap.spent" not in record.counters
    assert provider.asked == []
