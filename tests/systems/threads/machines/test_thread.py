"""The guards and updates of a thread."""

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
from interlock.kernel.table import Waiting
from interlock.systems.threads.machines.thread.data import thread_data
from interlock.systems.threads.machines.thread.stages import irrevocable
from interlock.systems.threads.machines.thread.table import THREAD
from tests.kernel.samples import DECLARED, INCITING, action, proposal, thread
from tests.systems.threads.machines.pure_threads import (
    CONTEXT,
    INTENT,
    PureThread,
    asked,
    at_action,
)

Data = Mapping[str, Any]


def test_end_to_end_asks_no_person_and_plan_then_review_asks_before_it_acts() -> None:
    free = at_action("end_to_end").infer(action(), declared=DECLARED)

    assert free.state == "executing"
    assert asked().state == "awaiting_confirmation"


def test_ask_every_step_asks_at_every_phase() -> None:
    case = PureThread(thread("ask_every_step")).fire("begin_inference").infer(INTENT)
    assert (case.state, case.data["target"]) == ("awaiting_intent_confirmation", "intent")
    case.fire("confirmed").infer(CONTEXT)
    assert (case.state, case.data["target"]) == ("awaiting_context_confirmation", "context")
    case.fire("confirmed").infer(action(), declared=DECLARED)

    assert (case.state, case.data["target"]) == ("awaiting_confirmation", "action")


def test_little_confidence_asks() -> None:
    case = PureThread(thread("end_to_end")).fire("begin_inference").infer(INTENT, confidence=0.2)

    assert case.state == "awaiting_intent_confirmation"
    failed = [check for check in case.why["checks"] if not check["passed"]]
    assert [check["axis"] for check in failed] == ["inference_confidence_floor"]


def test_a_child_obeys_the_most_careful_of_its_ancestors() -> None:
    strict = {
        "r": {"version": 3, "state": "monitoring", "policy": thread("ask_every_step")["policy"]}
    }
    free = {"r": {"version": 3, "state": "monitoring", "policy": thread("end_to_end")["policy"]}}
    cases = [
        PureThread(thread("end_to_end"), record_id="r/a")
        .fire("begin_inference")
        .infer(INTENT, facts=facts)
        for facts in (strict, free)
    ]

    assert [case.state for case in cases] == ["awaiting_intent_confirmation", "awaiting_inference"]
    assert cases[0].last.facts == strict


def test_an_action_has_at_least_the_risk_that_its_capability_declares() -> None:
    dear = {**DECLARED, "irreversibility": "high"}
    case = at_action().infer(action(), declared=dear)

    assert case.state == "awaiting_confirmation"
    axes = [check["axis"] for check in case.why["checks"] if not check["passed"]]
    assert axes == ["irreversibility_threshold"]


def test_an_action_that_declares_nothing_counts_as_the_worst() -> None:
    assert at_action().infer(action()).state == "awaiting_confirmation"


@pytest.mark.parametrize("kind", ["improvised", "suggestion"])
def test_only_a_standard_action_can_be_executed(kind: str) -> None:
    case = at_action().infer(action(kind), declared=DECLARED)

    assert case.state == "awaiting_confirmation"
    with pytest.raises(GuardRefusedError, match="edit it first"):
        case.fire("execute")


@pytest.mark.parametrize(
    ("target", "payload"),
    [("intent", {}), ("intent", {"intent": ""}), ("context", {}), ("context", {"item_ids": 3})],
)
def test_a_proposal_without_its_fields_is_refused(target: str, payload: Data) -> None:
    case = PureThread(thread("end_to_end")).fire("begin_inference")
    if target == "context":
        case.infer(INTENT)

    with pytest.raises(InvalidPayloadError, match=f"proposed {target}"):
        case.infer(payload)


@pytest.mark.parametrize("payload", [{}, {"kind": "magic"}, {"kind": "standard", "parameters": 1}])
def test_an_action_without_its_fields_is_refused(payload: Data) -> None:
    with pytest.raises(InvalidPayloadError, match="proposed action"):
        at_action().infer(payload)


def test_after_a_cleared_proposal_no_older_one_may_run() -> None:
    case = asked().fire("edited", {"clear": True})
    kept = case.data["proposals"]["action"]

    assert (case.state, kept["cleared"]) == ("awaiting_confirmation", True)
    assert "capability" not in kept["payload"]
    with pytest.raises(GuardRefusedError):
        case.fire("execute")
    case.fire("redirected", {"feedback": "think again"})
    assert case.data["proposals"]["action"]["cleared"]


def test_parameters_alone_do_not_bring_a_cleared_capability_back() -> None:
    case = asked().fire("edited", {"clear": True})
    case.fire("edited", {"parameters": {"text": "y"}})

    with pytest.raises(GuardRefusedError):
        case.fire("execute")
    case.fire("edited", {"capability": "tasks.add"})
    assert case.data["proposals"]["action"]["payload"]["parameters"] == {}
    assert case.fire("execute").state == "executing"


def test_an_edit_of_the_parameters_keeps_the_capability_and_its_declaration() -> None:
    case = asked().fire("edited", {"parameters": {"text": "y"}})
    kept = case.data["proposals"]["action"]

    assert (kept["payload"]["capability"], kept["payload"]["parameters"]) == (
        "notes.append",
        {"text": "y"},
    )
    assert (kept["by"], kept["confidence"], kept["id"]) == ("person", 1.0, "action-4")
    assert kept["declared"]["idempotent"]
    assert case.record.entered == case.record.version


def test_a_switched_capability_inherits_no_risk_and_no_parameters() -> None:
    case = asked().fire("edited", {"capability": "shell.run"})
    kept = case.data["proposals"]["action"]

    assert "declared" not in kept
    assert kept["payload"]["parameters"] == {}
    assert kept["payload"]["irreversibility"] == "high"
    assert irrevocable(thread_data(case.data))
    done = case.fire("execute").fire("execution_done", {"result": 1})
    assert done.state == "awaiting_review"


def test_a_switched_capability_brings_its_own_risk() -> None:
    case = asked().fire("edited", {"capability": "tasks.add", "declared": DECLARED})

    assert not irrevocable(thread_data(case.data))
    assert case.fire("execute").fire("execution_done", {"result": 1}).state == "done"


@pytest.mark.parametrize("claimed", ["low", "high"])
def test_an_answered_clarification_has_the_declared_risk_or_a_claimed_one(claimed: str) -> None:
    case = at_action().infer({**action("clarification"), "irreversibility": claimed})
    answer = {"capability": "notes.append", "parameters": {"text": "y"}, "declared": DECLARED}
    case.fire("provided", answer)

    assert case.state == "executing"
    assert case.data["proposals"]["action"]["payload"]["irreversibility"] == claimed


def test_an_edit_fits_its_card() -> None:
    case = PureThread(thread("ask_every_step")).fire("begin_inference").infer(INTENT)
    with pytest.raises(GuardRefusedError, match="`intent`"):
        case.fire("edited", {"item_ids": []})
    case.fire("edited", {"intent": "buy paint"}).infer(CONTEXT)
    with pytest.raises(GuardRefusedError, match="`item_ids`"):
        case.fire("edited", {"intent": "x"})
    case.fire("edited", {"item_ids": ["b"]})

    assert case.data["proposals"]["intent"]["payload"] == {"intent": "buy paint"}
    assert case.data["proposals"]["context"]["payload"] == {"item_ids": ["b"]}
    assert case.data["target"] == "action"
    with pytest.raises(InvalidPayloadError):
        case.fire("edited", {})


def test_prefetched_proposals_are_used_phase_by_phase() -> None:
    ahead = {"context": proposal(CONTEXT), "action": proposal(action())}
    case = PureThread(thread("end_to_end")).fire("begin_inference").infer(INTENT, prefetched=ahead)
    assert sorted(case.data["prefetched"]) == ["action", "context"]
    case.infer(CONTEXT)
    assert sorted(case.data["prefetched"]) == ["action"]
    case.infer(action(), declared=DECLARED)

    assert "prefetched" not in case.data


def test_prefetched_proposals_survive_a_confirmation_and_are_dropped_by_an_edit() -> None:
    ahead = {"context": proposal(CONTEXT), "action": proposal(action())}

    def waiting() -> PureThread:
        begun = PureThread(thread("ask_every_step")).fire("begin_inference")
        return begun.infer(INTENT, prefetched=ahead)

    assert "prefetched" in waiting().fire("confirmed").data
    assert "prefetched" not in waiting().fire("edited", {"intent": "buy paint"}).data
    assert "prefetched" not in waiting().fire("redirected").data


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
    case = PureThread(thread(), state).fire("redirected", {"feedback": "not that"})

    assert (case.state, case.data["target"]) == ("awaiting_inference", target)
    assert case.data["feedback"][-1]["text"] == "not that"


def test_a_thread_may_be_redirected_as_often_as_a_person_likes() -> None:
    case = asked()
    for number in range(100):
        case.fire("redirected", {"feedback": "another text"})
        case.infer(action(parameters={"text": f"{number}"}), declared=DECLARED)

    assert case.state == "awaiting_confirmation"
    assert case.fire("execute").state == "executing"


def test_a_redirect_to_an_earlier_phase_drops_later_proposals() -> None:
    case = asked().fire("redirected", {"target": "intent", "feedback": "all wrong"})

    assert case.data["target"] == "intent"
    assert list(case.data["proposals"]) == ["intent"]
    later = asked().fire("redirected", {"target": "context"})
    assert sorted(later.data["proposals"]) == ["context", "intent"]
    here = asked().fire("redirected")
    assert sorted(here.data["proposals"]) == ["action", "context", "intent"]


def test_an_answer_with_a_call_runs_another_waits_for_consent_and_words_go_to_the_model() -> None:
    def unclear() -> PureThread:
        case = at_action().infer(action("clarification", blocked_on="which one?"))
        assert case.state == "awaiting_action_clarification"
        return case

    call = unclear().fire("provided", {"capability": "notes.append", "parameters": {"text": "x"}})
    assert call.state == "executing"
    named = unclear().fire("provided", {"capability": "notes.append"})
    assert named.state == "awaiting_confirmation"
    assert named.fire("execute").state == "executing"
    words = unclear().fire("provided", {"text": "the left one", "values": {"side": "left"}})
    assert (words.state, words.data["target"]) == ("awaiting_inference", "action")
    assert words.data["feedback"][-1]["values"] == {"side": "left"}
    with pytest.raises(InvalidPayloadError):
        unclear().fire("provided", {})


def test_feedback_is_bounded() -> None:
    case = PureThread(thread(), "awaiting_intent_clarification")
    for number in range(30):
        case.fire("provided", {"text": f"{number}"}).fire("inference_started")
        case.fire("inference_failed", {"code": "timeout"})

    assert [line["text"] for line in case.data["feedback"]] == [f"{n}" for n in range(10, 30)]


@pytest.mark.parametrize("target", ["intent", "context", "action"])
def test_an_inference_that_fails_asks_about_its_own_phase(target: str) -> None:
    data = {**thread(), "target": target}
    for trigger in ("inference_failed", "budget_exceeded"):
        case = PureThread(data, "awaiting_inference").fire(trigger, {"detail": "no money"})
        assert case.state == f"awaiting_{target}_clarification"
        assert case.data["failure"]["detail"] == "no money"


def reviewed(declared: Data, policy: str = "plan_then_review") -> PureThread:
    case = at_action(policy).infer(action(), declared=declared)
    return case.fire("execute").fire("execution_done", {"result": {"ok": 1}, "run": "9.0:x"})


def test_a_capability_or_an_irreversible_action_demands_a_review() -> None:
    assert reviewed(DECLARED).state == "done"
    by_capability = reviewed({**DECLARED, "requires_post_review": True})
    by_policy = reviewed({**DECLARED, "irreversibility": "high"})

    assert [by_capability.state, by_policy.state] == ["awaiting_review"] * 2
    failed = [
        [check["axis"] for check in case.why["checks"] if not check["passed"]]
        for case in (by_capability, by_policy)
    ]
    assert failed == [["requires_post_review"], ["irreversibility_threshold"]]
    assert by_capability.data["result"] == {"ok": 1}


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
        return PureThread(data, "monitoring").fire("children_done", {"tally": tally}).state

    assert ended("singular", {"dismissed": 3}) == "dismissed"
    assert ended("singular", {"dismissed": 2, "done": 1}) == "done"
    assert ended("decompose", {"dismissed": 3}) == "done"


def test_a_split_keeps_the_list_of_children_before_the_first_is_created() -> None:
    parts = {"children": [{"title": "one"}, {"title": "two"}], "relationship": "singular"}
    case = asked().fire("decomposed", parts)

    assert case.state == "monitoring"
    assert [child["title"] for child in case.data["children"]] == ["one", "two"]
    owed = case.last.owes[0]
    assert (owed.effect.name, owed.countdown) == ("spawn", "children")


def test_a_cancel_interrupts_a_running_action_whose_runner_confirms() -> None:
    case = asked().fire("execute").fire("cancel_requested", {"reason": "stop"})

    assert (case.state, case.last.interrupts) == ("executing", True)
    assert case.fire("cancel_confirmed", {"reason": "stopped"}).state == "dismissed"
    with pytest.raises(IllegalTransitionError):
        asked().fire("execute").fire("dismissed_by_user")


def test_a_handoff_names_a_recipient_and_a_reference() -> None:
    whom = {"to": "Ann", "kind": "person", "reference": "mail 7"}
    case = asked().fire("handed_off", whom)

    assert (case.state, case.data["handed_off"]) == ("handed_off", whom)
    with pytest.raises(InvalidPayloadError):
        asked().fire("handed_off", {"to": "Ann"})


def test_a_thread_on_hold_waits_for_a_person_and_others_begin_by_themselves() -> None:
    held, free = (
        THREAD.decide_creation(PureThread(thread(hold=hold)).record) for hold in (True, False)
    )

    assert (held.waits, free.waits) == (True, False)
    assert [timer.name for timer in held.timers] == ["reminder"]
    assert [timer.name for timer in free.timers] == ["kickoff"]


def test_an_expiry_ends_a_wait_and_never_approves() -> None:
    case = PureThread(thread(expires_s=60), "awaiting_confirmation")
    stage = THREAD.stage("awaiting_confirmation")

    assert [timer.delay_ms for timer in stage.due(case.data) if timer.name == "expiry"] == [60_000]
    assert case.fire("timeout").state == "dismissed"


def test_children_that_a_producer_hands_in_become_the_proposed_action() -> None:
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
        {"inciting": {"fields": {"request_host": 7}}},
        {"inciting": {"fields": {"request_host": "north\n"}}},
        {"inciting": {"fields": {"request_host": "n" * 65}}},
        {"inciting": INCITING, "children": [{"fields": {"request_host": ""}}]},
    ],
)
def test_an_invalid_thread_is_refused(payload: Data) -> None:
    with pytest.raises(CallError, match="the thread is invalid"):
        THREAD.initial_data(payload)


def test_a_part_is_on_the_computer_of_the_whole_whatever_it_names() -> None:
    fields = {"request_host": "north"}
    parent = THREAD.initial_data({"inciting": INCITING | {"fields": fields}})
    (children,) = THREAD.children

    payloads = [
        children.payload(parent, {"fields": own}, ())[0] for own in ({}, {"request_host": "south"})
    ]

    hosts = [THREAD.placement.host(THREAD.initial_data(payload)) for payload in payloads]
    assert hosts == ["north", "north"]


@pytest.mark.parametrize("host", ["north", ""])
def test_a_clean_up_that_no_worker_began_says_on_which_computer_one_is_needed(host: str) -> None:
    fields = {"request_host": host} if host else {}
    case = PureThread(thread(inciting=INCITING | {"fields": fields}), "cleaning_up")
    timer = THREAD.stage(case.state).timer("stall")
    assert timer is not None

    case.fire(str(timer.trigger), timer.payload_when(begun=False))

    stage = THREAD.stage(case.state)
    assert isinstance(stage, Waiting)
    question = stage.question(case.data)
    assert "no worker began it within an hour" in question
    only = "is on the computer north, and only a worker of north removes it. Start one there"
    assert (only in question) is bool(host)
