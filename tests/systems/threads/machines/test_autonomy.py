"""The autonomy policy: each axis alone decides something, and a child is never bolder."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.moving import data_now
from interlock.kernel.scales import Level
from interlock.systems.threads.machines.autonomy import (
    AXES,
    COMPOSITIONS,
    ActionAsk,
    ActionKind,
    AdvanceVerdict,
    AutonomyPolicy,
    Gate,
    InvocationContext,
    ProposalKind,
    Risk,
    advance_verdict,
    demands_review,
    effective,
    join,
    meet,
    parse,
    tier_for,
)
from interlock.systems.threads.machines.policy_axis import PolicyError
from interlock.systems.threads.machines.thread.table import THREAD
from interlock.systems.threads.tier import Tier

MILD = Risk(irreversibility=Level.LOW, regret_potential=Level.LOW, risk_amplifier=False)
MEDIUM = Risk(irreversibility=Level.MEDIUM, regret_potential=Level.MEDIUM, risk_amplifier=False)
AMPLIFIED = replace(MILD, risk_amplifier=True)
BOLD = replace(COMPOSITIONS["end_to_end"], pause_on_risk_amplifier=False)


def ask(risk: Risk = MEDIUM, kind: ActionKind = ActionKind.STANDARD) -> ActionAsk:
    return ActionAsk(kind=kind, risk=risk, invocation=InvocationContext.ACTION_PROPOSAL)


def judged(
    policy: AutonomyPolicy, action: ActionAsk | None = None, confidence: float | None = 0.8
) -> AdvanceVerdict:
    return advance_verdict(
        policy,
        wait_state=Gate.AWAITING_CONFIRMATION,
        proposal_kind=ProposalKind.ACTION_INFERRED,
        confidence=confidence,
        action=action or ask(),
    )


def changed(axis: str, value: object) -> AutonomyPolicy:
    return parse({**BOLD.as_data(), axis: value})


levels = st.sampled_from(list(Level))
tiers = st.sampled_from(list(Tier))
policies = st.builds(
    AutonomyPolicy,
    auto_advance_states=st.frozensets(st.sampled_from(list(Gate))),
    consent_required_kinds=st.frozensets(st.sampled_from(list(ProposalKind))),
    inference_confidence_floor=st.floats(0, 1),
    irreversibility_threshold=levels,
    regret_potential_threshold=levels,
    pause_on_risk_amplifier=st.booleans(),
    allowed_action_kinds=st.frozensets(st.sampled_from(list(ActionKind))),
    allowed_invocation_contexts=st.frozensets(st.sampled_from(list(InvocationContext))),
    inference_floor_tier=tiers,
    inference_ceiling_tier=tiers,
    budget_micro=st.integers(0, 10**15),
    combined_inference=st.booleans(),
)
actions = st.builds(
    ActionAsk,
    kind=st.sampled_from(list(ActionKind)),
    risk=st.builds(Risk, levels, levels, st.booleans()),
    invocation=st.sampled_from(list(InvocationContext)),
)


def test_the_policy_has_the_twelve_axes() -> None:
    assert len(AXES) == 12
    assert {field.name for field in fields(AutonomyPolicy)} == set(AXES)


@dataclass(frozen=True)
class Alone:
    """One axis, the value that alone turns the decision, and the risk that shows it."""

    axis: str
    value: object
    risk: Risk = MEDIUM


JUDGED = (
    Alone("auto_advance_states", ["awaiting_intent_confirmation"]),
    Alone("consent_required_kinds", ["action_inferred"]),
    Alone("inference_confidence_floor", 0.81),
    Alone("irreversibility_threshold", "low", replace(MILD, irreversibility=Level.MEDIUM)),
    Alone("regret_potential_threshold", "low", replace(MILD, regret_potential=Level.MEDIUM)),
    Alone("pause_on_risk_amplifier", value=True, risk=AMPLIFIED),
    Alone("allowed_action_kinds", ["improvised", "suggestion"]),
    Alone("allowed_invocation_contexts", ["agent_autonomous"]),
)


@pytest.mark.parametrize("alone", JUDGED, ids=lambda alone: alone.axis)
def test_an_axis_alone_turns_an_advance_into_a_card(alone: Alone) -> None:
    before = judged(BOLD, ask(alone.risk))
    after = judged(changed(alone.axis, alone.value), ask(alone.risk))

    assert before.advance
    assert all(check.passed for check in before.checks)
    assert not after.advance
    assert [check.axis for check in after.checks if not check.passed] == [alone.axis]


UNJUDGED: dict[str, Callable[[AutonomyPolicy], object]] = {
    "inference_floor_tier": lambda policy: tier_for(policy, Tier.LOCAL_FAST),
    "inference_ceiling_tier": lambda policy: tier_for(policy, Tier.FRONTIER_BEST),
    "combined_inference": lambda policy: policy.combined_inference,
}


@pytest.mark.parametrize(
    ("axis", "value", "before", "after"),
    [
        ("inference_floor_tier", "frontier_balanced", "frontier_fast", "frontier_balanced"),
        ("inference_ceiling_tier", "frontier_balanced", "frontier_best", "frontier_balanced"),
        ("combined_inference", True, False, True),
    ],
)
def test_each_axis_alone_changes_the_verdict(
    axis: str, value: object, before: object, after: object
) -> None:
    decide = UNJUDGED[axis]

    assert decide(BOLD) == before
    assert decide(changed(axis, value)) == after


def test_each_of_the_twelve_axes_has_its_own_decision_here() -> None:
    # The budget is the store's to decide, where every spender meets: see
    # tests/workers/engine/test_work.py.
    assert {alone.axis for alone in JUDGED} | set(UNJUDGED) | {"budget_micro"} == set(AXES)


@pytest.mark.parametrize(
    ("gate", "kind"),
    [
        (Gate.AWAITING_INTENT_CONFIRMATION, ProposalKind.INTENT_INFERRED),
        (Gate.AWAITING_CONTEXT_CONFIRMATION, ProposalKind.CONTEXT_INFERRED),
        (Gate.AWAITING_CONFIRMATION, ProposalKind.ACTION_INFERRED),
    ],
)
@pytest.mark.parametrize(
    ("composition", "passes"),
    [
        ("end_to_end", {"intent_inferred", "context_inferred", "action_inferred"}),
        ("plan_then_review", {"intent_inferred", "context_inferred"}),
        ("ask_every_step", set[str]()),
    ],
)
def test_a_composition_passes_exactly_its_gates(
    composition: str, passes: set[str], gate: Gate, kind: ProposalKind
) -> None:
    action = ask(MILD) if kind is ProposalKind.ACTION_INFERRED else None
    policy = parse(composition)
    verdict = advance_verdict(
        policy, wait_state=gate, proposal_kind=kind, confidence=0.9, action=action
    )

    assert verdict.advance == (kind in passes)


def test_the_consent_kinds_of_every_composition_are_kinds_that_are_asked_about() -> None:
    for composition in ("plan_then_review", "ask_every_step"):
        open_gates = replace(parse(composition), auto_advance_states=frozenset(Gate))
        assert not judged(open_gates, ask(MILD)).advance


@pytest.mark.parametrize("confidence", [None, math.nan, math.inf, -0.1, 1.1])
def test_a_confidence_that_is_no_fraction_fails_even_a_floor_of_zero(
    confidence: float | None,
) -> None:
    verdict = judged(replace(BOLD, inference_confidence_floor=0.0), confidence=confidence)

    assert not verdict.advance
    assert [c.axis for c in verdict.checks if not c.passed] == ["inference_confidence_floor"]


def test_a_confidence_at_the_floor_and_a_risk_at_the_threshold_pass() -> None:
    assert judged(BOLD, ask(MEDIUM), confidence=0.6).advance


@given(policy=policies, action=actions, confidence=st.floats(0, 1))
def test_only_a_standard_action_ever_advances(
    policy: AutonomyPolicy, action: ActionAsk, confidence: float
) -> None:
    verdict = judged(policy, action, confidence)

    assert not verdict.advance or action.kind is ActionKind.STANDARD


def test_a_proposal_of_an_action_without_its_action_never_advances() -> None:
    verdict = advance_verdict(
        BOLD,
        wait_state="awaiting_confirmation",
        proposal_kind="action_inferred",
        confidence=1.0,
        action=None,
    )

    assert not verdict.advance


def test_an_unknown_kind_of_proposal_or_an_unknown_wait_never_advances() -> None:
    sure = partial(advance_verdict, BOLD, confidence=1.0, action=None)
    kind = sure(wait_state="awaiting_confirmation", proposal_kind="action_approved")

    assert not sure(wait_state="awaiting_review", proposal_kind="intent_inferred").advance
    assert not kind.advance
    assert "action_approved is no known proposal" in kind.checks[2].why


def test_every_check_states_both_values_and_the_verdict_is_json() -> None:
    verdict = judged(BOLD, ask(replace(MEDIUM, irreversibility=Level.HIGH)))

    whys = {check.axis: check.why for check in verdict.checks}
    assert whys["irreversibility_threshold"] == "irreversibility high is above the threshold medium"
    assert whys["inference_confidence_floor"] == "confidence 0.8 reaches the floor 0.6"
    assert set(whys) == {alone.axis for alone in JUDGED}
    assert json.loads(json.dumps(verdict.as_data()))["checks"][3]["passed"] is False


@given(policy=policies, parent=policies, action=actions, confidence=st.floats(0, 1))
def test_a_child_never_advances_where_its_parent_would_not(
    policy: AutonomyPolicy, parent: AutonomyPolicy, action: ActionAsk, confidence: float
) -> None:
    both = meet(parent, policy)

    if judged(both, action, confidence).advance:
        assert judged(parent, action, confidence).advance
        assert judged(policy, action, confidence).advance


@given(a=policies, b=policies, c=policies)
def test_meet_is_commutative_associative_and_idempotent(
    a: AutonomyPolicy, b: AutonomyPolicy, c: AutonomyPolicy
) -> None:
    assert meet(a, b) == meet(b, a)
    assert meet(a, meet(b, c)) == meet(meet(a, b), c)
    assert meet(a, a) == a


@given(a=policies, b=policies, c=policies)
def test_effective_is_the_meet_of_the_chain(
    a: AutonomyPolicy, b: AutonomyPolicy, c: AutonomyPolicy
) -> None:
    assert effective([a, b, c]) == meet(meet(a, b), c)
    assert effective(iter([a])) == a


def test_an_end_to_end_child_under_a_ask_every_step_parent_is_ask_every_step() -> None:
    assert effective([parse("ask_every_step"), parse("end_to_end")]) == parse("ask_every_step")
    assert effective([]) == parse("plan_then_review")


@given(policy=policies, default=tiers)
def test_the_ceiling_wins_over_the_floor(policy: AutonomyPolicy, default: Tier) -> None:
    tier = tier_for(policy, default)

    assert tier <= policy.inference_ceiling_tier
    if policy.inference_floor_tier <= policy.inference_ceiling_tier:
        assert tier >= policy.inference_floor_tier


@given(policy=policies.filter(lambda p: p.inference_floor_tier <= p.inference_ceiling_tier))
def test_a_policy_survives_json(policy: AutonomyPolicy) -> None:
    assert parse(json.loads(json.dumps(policy.as_data()))) == policy


def test_an_empty_allow_list_allows_nothing() -> None:
    policy = parse({"composition": "end_to_end", "allowed_action_kinds": []})

    assert policy.allowed_action_kinds == frozenset()
    assert parse(policy.as_data()).allowed_action_kinds == frozenset()
    assert not judged(policy, ask(MILD)).advance


def test_overrides_are_laid_over_the_named_composition_or_the_default() -> None:
    assert parse(None) == parse({}) == parse("plan_then_review")
    assert parse({"composition": "ask_every_step", "budget_usd": 0.1}).budget_micro == 100_000
    assert parse({"combined_inference": True}) == replace(parse(None), combined_inference=True)


@pytest.mark.parametrize(
    ("usd", "micro"), [(0.5, 500_000), ("0.000001", 1), (2, 2_000_000), (0, 0), (0.3, 300_000)]
)
def test_dollars_become_whole_micro_dollars(usd: object, micro: int) -> None:
    assert parse({"budget_usd": usd}).budget_micro == micro


@pytest.mark.parametrize(
    ("value", "axis", "allowed"),
    [
        ("yolo", "composition", "ask_every_step"),
        ({"composition": None}, "composition", "end_to_end"),
        ({"irreversibility_treshold": "low"}, "irreversibility_treshold", "budget_micro"),
        ({"irreversibility_threshold": "moderate"}, "irreversibility_threshold", "medium"),
        ({"regret_potential_threshold": None}, "regret_potential_threshold", "low"),
        ({"auto_advance_states": ["executing"]}, "auto_advance_states", "awaiting_confirmation"),
        ({"consent_required_kinds": ["action_approved"]}, "consent_required_kinds", "action_infe"),
        ({"allowed_action_kinds": "standard"}, "allowed_action_kinds", "a list of standard"),
        ({"allowed_invocation_contexts": [1]}, "allowed_invocation_contexts", "agent_autonomous"),
        ({"inference_confidence_floor": math.nan}, "inference_confidence_floor", "from 0 to 1"),
        ({"inference_confidence_floor": True}, "inference_confidence_floor", "from 0 to 1"),
        ({"pause_on_risk_amplifier": "no"}, "pause_on_risk_amplifier", "true, false"),
        ({"combined_inference": 1}, "combined_inference", "true, false"),
        ({"inference_floor_tier": "fast"}, "inference_floor_tier", "local_fast"),
        ({"inference_ceiling_tier": "local_fast"}, "inference_floor_tier", "at most"),
        ({"budget_micro": 0.5}, "budget_micro", "whole number"),
        ({"budget_micro": -1}, "budget_micro", "whole number"),
        ({"budget_usd": -1}, "budget_usd", "dollars"),
        ({"budget_usd": "1e999999999"}, "budget_usd", "dollars"),
        ({"budget_usd": math.inf}, "budget_usd", "dollars"),
        ({"budget_usd": "NaN"}, "budget_usd", "dollars"),
        ({"budget_usd": 0.0000001}, "budget_usd", "six decimals"),
        ({"budget_usd": True}, "budget_usd", "dollars"),
        ({"budget_usd": 1, "budget_micro": 1}, "budget_usd", "either"),
    ],
)
def test_a_defective_policy_names_axis_value_and_what_is_allowed(
    value: dict[str, object] | str, axis: str, allowed: str
) -> None:
    with pytest.raises(PolicyError, match=axis) as refused:
        parse(value)

    assert refused.value.axis == axis
    assert allowed in str(refused.value)


@pytest.mark.parametrize("value", ["moderate", "HIGH", "", "none"])
def test_an_unknown_level_reads_as_high(value: str) -> None:
    assert Level(value) is Level.HIGH


def test_a_risk_reads_what_is_missing_or_unknown_as_the_worst() -> None:
    worst = Risk(Level.HIGH, Level.HIGH, risk_amplifier=True)

    assert Risk.read({}) == worst
    assert Risk.read({"irreversibility": None, "regret_potential": 3}) == worst
    mild = {"irreversibility": "low", "regret_potential": "low", "risk_amplifier": False}
    assert Risk.read(mild) == MILD


def test_levels_and_tiers_are_ordered_by_rank_not_by_alphabet() -> None:
    assert Level.LOW < Level.MEDIUM < Level.HIGH
    assert Level.HIGH >= Level.HIGH > "low"
    assert max(Tier) is Tier.USER
    assert max(Level.LOW, Level.HIGH) is Level.HIGH
    assert Tier.FRONTIER_BEST <= Tier.AGENT_HEADLESS


risks = st.builds(Risk, levels, levels, st.booleans())


@given(declared=risks, claimed=risks)
def test_a_declared_risk_is_the_lower_bound(declared: Risk, claimed: Risk) -> None:
    joined = join(declared, claimed)

    assert joined.irreversibility >= max(declared.irreversibility, claimed.irreversibility)
    assert joined.regret_potential >= max(declared.regret_potential, claimed.regret_potential)
    assert joined.risk_amplifier == (declared.risk_amplifier or claimed.risk_amplifier)
    assert join(claimed, declared) == joined


@pytest.mark.parametrize(
    ("level", "template", "demanded"),
    [(Level.MEDIUM, False, False), (Level.HIGH, False, True), (Level.LOW, True, True)],
)
def test_a_review_is_demanded_by_the_template_or_above_the_threshold(
    *, level: Level, template: bool, demanded: bool
) -> None:
    risk = replace(MILD, irreversibility=level)
    review = demands_review(parse(None), risk, requires_post_review=template)

    assert review.demanded == demanded
    assert json.loads(json.dumps(review.as_data()))["demanded"] == demanded


def test_a_thread_of_an_earlier_version_asks_for_its_parts_as_much_as_before() -> None:
    earlier = {"composition": "hands_off", "budget_usd": 0.1}
    parts = [{"title": "a", "policy": "hands_off"}, {"policy": earlier}, {"title": "hands_off"}]
    action = {"capability": "decompose", "parameters": {"children": parts}}
    data = {"policy": parse(None).as_data(), "proposals": {"action": action}, "children": parts}

    found = data_now(THREAD, data, 1)

    a, b, c = found["children"]
    assert found["proposals"]["action"]["parameters"]["children"] == [a, b, c]
    assert parse(a["policy"]) == parse("ask_every_step")
    assert b["policy"] == {**earlier, "composition": "ask_every_step"}
    assert (c, found["policy"]) == (parts[2], data["policy"])
