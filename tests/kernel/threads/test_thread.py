"""What a thread's guards ask and its updates change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from interlock.kernel.errors import (
    CallError,
    GuardRefusedError,
    IllegalTransitionError,
    InvalidPayloadError,
)
from interlock.kernel.machines.threads.thread.stages import irrevocable
from interlock.kernel.machines.threads.thread.table import THREAD
from tests.kernel.samples import DECLARED, INCITING, action, proposal, thread
from tests.kernel.threads.pure_threads import CONTEXT, INTENT, Told, asked, at_action

Data = Mapping[str, Any]


# --- policies --------------------------------------------------------------------------------


def test_end_to_end_asks_nobody_and_plan_then_review_asks_before_it_acts() -> None:
    free = at_action("end_to_end").infer(action(), declared=DECLARED)

    assert free.state == "executing"
    assert asked().state == "awaiting_confirmation"


def test_hands_off_asks_at_every_phase() -> None:
    told = Told(thread("hands_off")).fire("begin_inference").infer(INTENT)
    assert (told.state, told.data["target"]) == ("awaiting_intent_confirmation", "intent")
    told.fire("confirmed").infer(CONTEXT)
    assert (told.state, told.data["target"]) == ("awaiting_context_confirmation", "context")
    told.fire("confirmed").infer(action(), declared=DECLARED)

    assert (told.state, told.data["target"]) == ("awaiting_confirmation", "action")


def test_little_confidence_asks() -> None:
    told = Told(thread("end_to_end")).fire("begin_inference").infer(INTENT, confidence=0.2)

    assert told.state == "awaiting_intent_confirmation"
    failed = [check for check in told.why["checks"] if not check["passed"]]
    assert [check["axis"] for check in failed] == ["inference_confidence_floor"]


def test_a_child_obeys_the_most_careful_of_its_ancestors() -> None:
    strict = {"r": {"version": 3, "state": "monitoring", "policy": thread("hands_off")["policy"]}}
    free = {"r": {"version": 3, "state": "monitoring", "policy": thread("end_to_end")["policy"]}}
    told = [
        Told(thread("end_to_end"), of="r/a").fire("begin_inference").infer(INTENT, facts=facts)
        for facts in (strict, free)
    ]

    assert [one.state for one in told] == ["awaiting_intent_confirmation", "awaiting_inference"]
    assert told[0].last.facts == strict


def test_what_a_capability_declares_bounds_what_a_model_claims() -> None:
    dear = {**DECLARED, "irreversibility": "high"}
    told = at_action().infer(action(), declared=dear)

    assert told.state == "awaiting_confirmation"
    axes = [check["axis"] for check in told.why["checks"] if not check["passed"]]
    assert axes == ["irreversibility_threshold"]


def test_an_action_that_declares_nothing_counts_as_the_worst() -> None:
    assert at_action().infer(action()).state == "awaiting_confirmation"


@pytest.mark.parametrize("kind", ["improvised", "suggestion"])
def test_only_a_standard_action_runs_unasked_or_at_all(kind: str) -> None:
    told = at_action().infer(action(kind), declared=DECLARED)

    assert told.state == "awaiting_confirmation"
    with pytest.raises(GuardRefusedError, match="edit it first"):
        told.fire("execute")


@pytest.mark.parametrize(
    ("target", "payload"),
    [("intent", {}), ("intent", {"intent": ""}), ("context", {}), ("context", {"item_ids": 3})],
)
def test_a_proposal_without_its_shape_is_refused(target: str, payload: Data) -> None:
    told = Told(thread("end_to_end")).fire("begin_inference")
    if target == "context":
        told.infer(INTENT)

    with pytest.raises(InvalidPayloadError, match=f"proposed {target}"):
        told.infer(payload)


@pytest.mark.parametrize("payload", [{}, {"kind": "magic"}, {"kind": "standard", "parameters": 1}])
def test_an_action_without_its_shape_is_refused(payload: Data) -> None:
    with pytest.raises(InvalidPayloadError, match="proposed action"):
        at_action().infer(payload)


# --- tombstones ------------------------------------------------------------------------------


def test_a_cleared_proposal_is_a_tombstone_and_nothing_older_may_run() -> None:
    told = asked().fire("edited", {"clear": True})
    kept = told.data["proposals"]["action"]

    assert (told.state, kept["cleared"]) == ("awaiting_confirmation", True)
    assert "capability" not in kept["payload"]
    with pytest.raises(GuardRefusedError):
        told.fire("execute")
    told.fire("redirected", {"feedback": "think again"})
    assert told.data["proposals"]["action"]["cleared"]


def test_parameters_alone_do_not_bring_a_cleared_capability_back() -> None:
    told = asked().fire("edited", {"clear": True})
    told.fire("edited", {"parameters": {"text": "y"}})

    with pytest.raises(GuardRefusedError):
        told.fire("execute")
    told.fire("edited", {"capability": "tasks.add"})
    assert told.data["proposals"]["action"]["payload"]["parameters"] == {}
    assert told.fire("execute").state == "executing"


# --- a person's edits ------------------------------------------------------------------------


def test_an_edit_of_the_parameters_keeps_the_capability_and_what_it_declared() -> None:
    told = asked().fire("edited", {"parameters": {"text": "y"}})
    kept = told.data["proposals"]["action"]

    assert (kept["payload"]["capability"], kept["payload"]["parameters"]) == (
        "notes.append",
        {"text": "y"},
    )
    assert (kept["by"], kept["confidence"], kept["id"]) == ("person", 1.0, "action-4")
    assert kept["declared"]["idempotent"]
    assert told.record.entered == told.record.version


def test_a_switched_capability_inherits_no_risk_and_no_parameters() -> None:
    told = asked().fire("edited", {"capability": "shell.run"})
    kept = told.data["proposals"]["action"]

    assert "declared" not in kept
    assert kept["payload"]["parameters"] == {}
    assert "irreversibility" not in kept["payload"]
    assert irrevocable(told.data)
    done = told.fire("execute").fire("execution_done", {"result": 1})
    assert done.state == "awaiting_review"


def test_a_switched_capability_brings_its_own_risk() -> None:
    told = asked().fire("edited", {"capability": "tasks.add", "declared": DECLARED})

    assert not irrevocable(told.data)
    assert told.fire("execute").fire("execution_done", {"result": 1}).state == "done"


def test_an_edit_fits_its_card() -> None:
    told = Told(thread("hands_off")).fire("begin_inference").infer(INTENT)
    with pytest.raises(GuardRefusedError, match="`intent`"):
        told.fire("edited", {"item_ids": []})
    told.fire("edited", {"intent": "buy paint"}).infer(CONTEXT)
    with pytest.raises(GuardRefusedError, match="`item_ids`"):
        told.fire("edited", {"intent": "x"})
    told.fire("edited", {"item_ids": ["b"]})

    assert told.data["proposals"]["intent"]["payload"] == {"intent": "buy paint"}
    assert told.data["proposals"]["context"]["payload"] == {"item_ids": ["b"]}
    assert told.data["target"] == "action"
    with pytest.raises(InvalidPayloadError):
        told.fire("edited", {})


def test_what_was_fetched_ahead_is_used_up_phase_by_phase() -> None:
    ahead = {"context": proposal(CONTEXT), "action": proposal(action())}
    told = Told(thread("end_to_end")).fire("begin_inference").infer(INTENT, prefetched=ahead)
    assert sorted(told.data["prefetched"]) == ["action", "context"]
    told.infer(CONTEXT)
    assert sorted(told.data["prefetched"]) == ["action"]
    told.infer(action(), declared=DECLARED)

    assert "prefetched" not in told.data


def test_what_was_fetched_ahead_survives_a_yes_and_is_dropped_by_an_edit() -> None:
    ahead = {"context": proposal(CONTEXT), "action": proposal(action())}

    def waiting() -> Told:
        begun = Told(thread("hands_off")).fire("begin_inference")
        return begun.infer(INTENT, prefetched=ahead)

    assert "prefetched" in waiting().fire("confirmed").data
    assert "prefetched" not in waiting().fire("edited", {"intent": "buy paint"}).data
    assert "prefetched" not in waiting().fire("redirected").data


# --- redirects and answers -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "target"),
    [
        ("awaiting_intent_confirmation", "intent"),
        ("awaiting_context_confirmation", "context"),
        ("awaiting_intent_clarification", "intent"),
        ("awaiting_context_clarification", "context"),
        ("awaiting_action_clarification", "action"),
        ("awaiting_confirmation", "action"),
        ("awaiting_review", "action"),
        ("awaiting_redirect", "action"),
    ],
)
def test_a_redirect_starts_again_from_the_phase_of_its_card(state: str, target: str) -> None:
    told = Told(thread(), state).fire("redirected", {"feedback": "not that"})

    assert (told.state, told.data["target"]) == ("awaiting_inference", target)
    assert told.data["feedback"][-1]["text"] == "not that"


def test_a_redirect_to_an_earlier_phase_drops_what_rests_on_it() -> None:
    told = asked().fire("redirected", {"target": "intent", "feedback": "all wrong"})

    assert told.data["target"] == "intent"
    assert list(told.data["proposals"]) == ["intent"]
    later = asked().fire("redirected", {"target": "context"})
    assert sorted(later.data["proposals"]) == ["context", "intent"]
    here = asked().fire("redirected")
    assert sorted(here.data["proposals"]) == ["action", "context", "intent"]


def test_a_whole_action_as_an_answer_waits_for_consent_and_words_go_to_the_model() -> None:
    def unclear() -> Told:
        told = at_action().infer(action("clarification", blocked_on="which one?"))
        assert told.state == "awaiting_action_clarification"
        return told

    whole = unclear().fire("provided", {"capability": "notes.append", "parameters": {"text": "x"}})
    assert whole.state == "awaiting_confirmation"
    assert whole.fire("execute").state == "executing"
    words = unclear().fire("provided", {"text": "the left one", "values": {"side": "left"}})
    assert (words.state, words.data["target"]) == ("awaiting_inference", "action")
    assert words.data["feedback"][-1]["values"] == {"side": "left"}
    with pytest.raises(InvalidPayloadError):
        unclear().fire("provided", {})


def test_feedback_is_bounded() -> None:
    told = Told(thread(), "awaiting_intent_clarification")
    for number in range(30):
        told.fire("provided", {"text": f"{number}"}).fire("inference_started")
        told.fire("inference_failed", {"code": "timeout"})

    assert [line["text"] for line in told.data["feedback"]] == [f"{n}" for n in range(10, 30)]


@pytest.mark.parametrize("target", ["intent", "context", "action"])
def test_an_inference_that_fails_asks_about_its_own_phase(target: str) -> None:
    data = {**thread(), "target": target}
    for trigger in ("inference_failed", "budget_exceeded"):
        told = Told(data, "awaiting_inference").fire(trigger, {"detail": "no money"})
        assert told.state == f"awaiting_{target}_clarification"
        assert told.data["failure"]["detail"] == "no money"


# --- review, children, ends ------------------------------------------------------------------


def reviewed(declared: Data, policy: str = "plan_then_review") -> Told:
    told = at_action(policy).infer(action(), declared=declared)
    return told.fire("execute").fire("execution_done", {"result": {"ok": 1}, "run": "9.0:x"})


def test_a_template_may_demand_a_review_and_so_may_what_cannot_be_undone() -> None:
    assert reviewed(DECLARED).state == "done"
    by_template = reviewed({**DECLARED, "requires_post_review": True})
    by_policy = reviewed({**DECLARED, "irreversibility": "high"})

    assert [by_template.state, by_policy.state] == ["awaiting_review"] * 2
    failed = [
        [check["axis"] for check in told.why["checks"] if not check["passed"]]
        for told in (by_template, by_policy)
    ]
    assert failed == [["requires_post_review"], ["irreversibility_threshold"]]
    assert by_template.data["result"] == {"ok": 1}


def test_every_decision_of_the_policy_says_why() -> None:
    explained = {
        str(row.trigger) for row in THREAD.transitions if row.reads and row.explain is not None
    }
    silent = [row for row in THREAD.transitions if row.reads and row.explain is None]

    assert explained == {"inference_done", "execution_done"}
    assert silent == []


def test_a_singular_matter_is_dismissed_when_all_its_alternatives_were() -> None:
    def ended(relationship: str, tally: dict[str, int]) -> str:
        data = {**thread(), "relationship": relationship}
        return Told(data, "monitoring").fire("children_done", {"tally": tally}).state

    assert ended("singular", {"dismissed": 3}) == "dismissed"
    assert ended("singular", {"dismissed": 2, "done": 1}) == "done"
    assert ended("decompose", {"dismissed": 3}) == "done"


def test_splitting_keeps_the_list_of_children_before_the_first_is_born() -> None:
    parts = {"children": [{"title": "one"}, {"title": "two"}], "relationship": "singular"}
    told = asked().fire("decomposed", parts)

    assert told.state == "monitoring"
    assert [child["title"] for child in told.data["children"]] == ["one", "two"]
    owed = told.last.owes[0]
    assert (owed.effect.name, owed.countdown) == ("spawn", "children")


def test_cancelling_what_runs_interrupts_it_and_its_runner_confirms() -> None:
    told = asked().fire("execute").fire("cancel_requested", {"reason": "stop"})

    assert (told.state, told.last.interrupts) == ("executing", True)
    assert told.fire("cancel_confirmed", {"reason": "stopped"}).state == "dismissed"
    with pytest.raises(IllegalTransitionError):
        asked().fire("execute").fire("dismissed_by_user")


def test_a_hand_over_names_who_and_where() -> None:
    whom = {"to": "Ann", "kind": "person", "reference": "mail 7"}
    told = asked().fire("handed_off", whom)

    assert (told.state, told.data["handed_off"]) == ("handed_off", whom)
    with pytest.raises(InvalidPayloadError):
        asked().fire("handed_off", {"to": "Ann"})


def test_a_thread_on_hold_waits_for_a_person_and_others_begin_by_themselves() -> None:
    held, free = (THREAD.decide_creation(Told(thread(hold=hold)).record) for hold in (True, False))

    assert (held.waits, free.waits) == (True, False)
    assert [timer.name for timer in held.timers] == ["reminder"]
    assert [timer.name for timer in free.timers] == ["kickoff"]


def test_an_expiry_ends_a_wait_and_never_approves() -> None:
    told = Told(thread(expires_s=60), "awaiting_confirmation")
    stage = THREAD.stage("awaiting_confirmation")

    assert [timer.delay_ms for timer in stage.due(told.data) if timer.name == "expiry"] == [60_000]
    assert told.fire("timeout").state == "dismissed"


def test_children_that_a_producer_brings_become_the_action_of_their_umbrella() -> None:
    family = {"inciting": INCITING, "children": [{"title": "one"}], "relationship": "group"}
    data = THREAD.initial_data(family)
    given = data["given"]

    assert given["action"]["parameters"]["relationship"] == "group"
    assert given["intent"].endswith("Call the dentist")
    assert "children" not in data


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"inciting": INCITING, "surprise": 1},
        {"inciting": {"titel": "x"}},
        {"inciting": INCITING, "policy": "reckless"},
        {"inciting": INCITING, "policy": {"inference_confidence_floor": 2}},
        {"inciting": INCITING, "expires_s": -1},
    ],
)
def test_a_thread_is_not_born_of_nonsense(payload: Data) -> None:
    with pytest.raises(CallError, match="the thread is invalid"):
        THREAD.initial_data(payload)
