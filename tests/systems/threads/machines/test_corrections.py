"""What follows a person's words about a proposal or a failed call."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.table import Waiting
from interlock.systems.threads.machines.thread.table import THREAD
from tests.kernel.samples import CALL, DECLARED, action, thread
from tests.systems.threads.machines.pure_threads import (
    CONTEXT,
    INTENT,
    PureThread,
    asked,
    at_action,
)

OTHER: dict[str, Any] = {**CALL, "parameters": {"text": "y"}}
WORDS = {"text": "write y"}


def failed_call() -> PureThread:
    """Return a thread without a policy of asking, whose call failed."""
    case = at_action().infer(action(), declared=DECLARED)
    case.fire("execution_failed", {"code": "failed", "detail": "no ink"})
    assert case.state == "awaiting_redirect"
    return case


def question_of(case: PureThread) -> str:
    stage = THREAD.stage(case.state)
    assert isinstance(stage, Waiting)
    return str(stage.question(case.data))


def not_passed(case: PureThread) -> list[str]:
    return [check["axis"] for check in case.why["checks"] if not check["passed"]]


@pytest.mark.parametrize(
    ("trigger", "words"), [("provided", WORDS), ("redirected", {"feedback": "again"})]
)
def test_a_failed_call_is_not_run_again_whatever_words_followed(
    trigger: str, words: dict[str, Any]
) -> None:
    case = failed_call().fire(trigger, words).infer(action(), 1.0, declared=DECLARED)

    assert case.state == "awaiting_action_clarification"
    assert not_passed(case) == ["correction"]
    said = question_of(case)
    assert said.startswith("Your answer changed nothing: it would be notes.append(text='x') again")
    assert "again, but it failed: no ink. What should be different?" in said
    # Nor by a second answer, nor after another call in between.
    case.fire("provided", {"text": "y then"}).infer(action(**OTHER), declared=DECLARED)
    assert case.state == "awaiting_confirmation"
    case.fire("execute").fire("execution_failed", {"detail": "no paper"})
    assert case.fire("provided", WORDS).infer(action(), declared=DECLARED).state == (
        "awaiting_action_clarification"
    )


def test_what_was_made_of_words_is_shown_before_it_runs_with_what_it_replaces() -> None:
    case = failed_call().fire("provided", WORDS).infer(action(**OTHER), 1.0, declared=DECLARED)

    assert case.state == "awaiting_confirmation"
    assert not_passed(case) == ["correction"]
    assert question_of(case) == (
        "May this be done: notes.append(text='y')?"
        " Before, it was notes.append(text='x'), but it failed: no ink."
    )


@pytest.mark.parametrize("target", ["intent", "context", "action"])
def test_an_answer_in_words_to_any_clarification_is_shown_before_it_runs(target: str) -> None:
    case = PureThread({**thread("end_to_end"), "target": target}, "awaiting_inference")
    case.fire("inference_failed", {"detail": "it said nothing"}).fire("provided", WORDS)
    ahead: list[Any] = [INTENT, CONTEXT][["intent", "context", "action"].index(target) :]
    for payload in ahead:
        case.infer(payload)

    assert case.infer(action(), declared=DECLARED).state == "awaiting_confirmation"


def test_values_without_words_need_no_more_consent_than_the_policy_wants() -> None:
    case = at_action().infer(action("clarification", blocked_on="which text?"))
    case.fire("provided", {"values": {"text": "x"}}).infer(action(), declared=DECLARED)

    assert case.state == "executing"


def test_a_proposal_that_a_person_redirected_is_not_made_again() -> None:
    case = asked().fire("redirected", {"feedback": "not that"}).infer(action(), declared=DECLARED)

    assert case.state == "awaiting_action_clarification"
    assert "a person wanted something else" in question_of(case)


def test_a_call_that_was_done_and_not_accepted_is_not_done_again() -> None:
    declared = {**DECLARED, "requires_post_review": True}
    case = at_action().infer(action(), declared=declared).fire("execution_done", {"result": 1})
    assert case.state == "awaiting_review"
    case.fire("redirected", {"feedback": "wrong book"}).infer(action(), declared=declared)

    assert case.state == "awaiting_action_clarification"


@pytest.mark.parametrize("target", ["intent", "context", "action"])
def test_whoever_gives_a_call_is_not_asked_for_consent(target: str) -> None:
    case = PureThread({**thread("ask_every_step"), "target": target}, "awaiting_inference")
    case.fire("inference_failed", {"detail": "it said nothing"})

    assert case.fire("provided", {**CALL, "declared": DECLARED}).state == "executing"
    assert case.last.names_proposal
    assert case.data["proposals"]["action"]["payload"]["parameters"] == {"text": "x"}
    assert "failure" not in case.data


def test_a_call_waits_for_its_items_where_there_are_some() -> None:
    items = [{"id": "a"}]
    case = PureThread({**thread("ask_every_step", items=items), "target": "context"})
    case.fire("begin_inference").fire("inference_failed", {"detail": "it said nothing"})

    assert case.fire("provided", CALL).state == "awaiting_inference"


def test_another_call_runs_after_a_failure_and_the_same_one_after_a_question() -> None:
    assert failed_call().fire("provided", OTHER).state == "executing"
    same = failed_call().fire("provided", CALL)
    assert same.state == "awaiting_confirmation"
    assert question_of(same) == (
        "May this be done: notes.append(text='x')? It was the same before, but it failed: no ink."
    )
    assert same.fire("execute").state == "executing"


def test_words_count_before_the_parameters_that_a_form_had_filled_in() -> None:
    case = failed_call().fire("provided", {**CALL, "text": "write y"})

    assert case.state == "awaiting_inference"
    (line,) = case.data["feedback"]
    assert (line["text"], line["values"]) == ("write y", {})
    changed = failed_call().fire("provided", {**OTHER, "text": "write y"})
    assert changed.state == "executing"
    assert changed.data["feedback"][-1]["text"] == "write y"


def test_an_inference_that_fails_after_a_correction_says_so() -> None:
    case = failed_call().fire("provided", WORDS).fire("inference_started")
    case.fire("inference_failed", {"detail": "the model is away"})

    assert question_of(case) == "the model is away. What should be done?"


def test_a_call_that_fails_twice_is_kept_once_with_its_last_error() -> None:
    case = failed_call().fire("provided", OTHER).fire("execution_failed", {"detail": "no pen"})
    case.fire("provided", CALL).fire("execute").fire("execution_failed", {"detail": "no paper"})

    kept = [(call["parameters"]["text"], call["why"]) for call in case.data["turned_down"]]
    assert kept == [("y", "it failed: no pen."), ("x", "it failed: no paper.")]


def test_the_calls_that_are_kept_are_bounded() -> None:
    case = asked()
    for number in range(30):
        case.fire("redirected", {"feedback": "other"})
        case.infer(action(parameters={"text": f"{number}"}), declared=DECLARED)

    kept = [call["parameters"]["text"] for call in case.data["turned_down"]]
    assert kept == [f"{number}" for number in range(19, 29)]
