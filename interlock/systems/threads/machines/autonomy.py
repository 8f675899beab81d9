"""The autonomy policy: what may go ahead without a person. Pure.

A policy has twelve axes. A record obeys the meet of its own policy and those of all its ancestors,
so a child can only be more careful than its parent. A verdict names each comparison behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum, auto
from functools import reduce
from math import isfinite

from interlock import Level
from interlock.systems.threads.machines.policy_axis import (
    PolicyError,
    budget,
    flag,
    fraction,
    word,
    words,
)
from interlock.systems.threads.tier import Tier


class Gate(StrEnum):
    """The waiting states that a policy may pass without a person."""

    AWAITING_INTENT_CONFIRMATION = auto()
    AWAITING_CONTEXT_CONFIRMATION = auto()
    AWAITING_CONFIRMATION = auto()


class ProposalKind(StrEnum):
    """The things that an inference may propose."""

    INTENT_INFERRED = auto()
    CONTEXT_INFERRED = auto()
    ACTION_INFERRED = auto()


class ActionKind(StrEnum):
    """The sorts of actions. Only a standard one may run without a person."""

    STANDARD = auto()
    IMPROVISED = auto()
    SUGGESTION = auto()
    CLARIFICATION = auto()


class InvocationContext(StrEnum):
    """The origins of a proposal to act."""

    ACTION_PROPOSAL = auto()
    AGENT_AUTONOMOUS = auto()
    SCHEDULED_JOB = auto()
    BATCH = auto()


@dataclass(frozen=True, slots=True)
class AutonomyPolicy:
    """The twelve axes. An empty set allows nothing; thresholds are inclusive."""

    auto_advance_states: frozenset[Gate]
    consent_required_kinds: frozenset[ProposalKind]
    inference_confidence_floor: float
    irreversibility_threshold: Level
    regret_potential_threshold: Level
    pause_on_risk_amplifier: bool
    allowed_action_kinds: frozenset[ActionKind]
    allowed_invocation_contexts: frozenset[InvocationContext]
    inference_floor_tier: Tier
    inference_ceiling_tier: Tier
    budget_micro: int
    combined_inference: bool

    def as_data(self) -> dict[str, object]:
        """Return the policy as JSON-able data with sorted lists; `parse` reads it back."""
        return {axis: _plain(getattr(self, axis)) for axis in AXES}


AXES = tuple(field.name for field in fields(AutonomyPolicy))

_PLAN_THEN_REVIEW = AutonomyPolicy(
    auto_advance_states=frozenset(Gate) - {Gate.AWAITING_CONFIRMATION},
    consent_required_kinds=frozenset({ProposalKind.ACTION_INFERRED}),
    inference_confidence_floor=0.6,
    irreversibility_threshold=Level.MEDIUM,
    regret_potential_threshold=Level.MEDIUM,
    pause_on_risk_amplifier=True,
    allowed_action_kinds=frozenset(ActionKind) - {ActionKind.CLARIFICATION},
    allowed_invocation_contexts=frozenset(
        {InvocationContext.ACTION_PROPOSAL, InvocationContext.AGENT_AUTONOMOUS}
    ),
    inference_floor_tier=Tier.FRONTIER_FAST,
    inference_ceiling_tier=Tier.AGENT_HEADLESS,
    budget_micro=500_000,
    combined_inference=False,
)

COMPOSITIONS: Mapping[str, AutonomyPolicy] = {
    "end_to_end": replace(
        _PLAN_THEN_REVIEW,
        auto_advance_states=frozenset(Gate),
        consent_required_kinds=frozenset(),
    ),
    "plan_then_review": _PLAN_THEN_REVIEW,
    "ask_every_step": replace(
        _PLAN_THEN_REVIEW,
        auto_advance_states=frozenset(),
        consent_required_kinds=frozenset(ProposalKind),
        budget_micro=200_000,
    ),
}
DEFAULT_COMPOSITION = "plan_then_review"
# What a person is asked about, by waiting state and by proposal.
ASKED_ABOUT: Mapping[str, str] = {
    Gate.AWAITING_INTENT_CONFIRMATION: "intent",
    Gate.AWAITING_CONTEXT_CONFIRMATION: "context",
    Gate.AWAITING_CONFIRMATION: "action",
    ProposalKind.INTENT_INFERRED: "intent",
    ProposalKind.CONTEXT_INFERRED: "context",
    ProposalKind.ACTION_INFERRED: "action",
}


@dataclass(frozen=True, slots=True)
class Risk:
    """The harm that an action could do."""

    irreversibility: Level
    regret_potential: Level
    risk_amplifier: bool

    @classmethod
    def read(cls, data: Mapping[str, object]) -> Risk:
        """Read a risk from JSON; a missing or unknown value counts as the worst."""
        return cls(
            irreversibility=Level(str(data.get("irreversibility"))),
            regret_potential=Level(str(data.get("regret_potential"))),
            risk_amplifier=data.get("risk_amplifier") is not False,
        )

    def as_data(self) -> dict[str, object]:
        """Return the risk as JSON-able data."""
        return {
            "irreversibility": str(self.irreversibility),
            "regret_potential": str(self.regret_potential),
            "risk_amplifier": self.risk_amplifier,
        }


@dataclass(frozen=True, slots=True)
class ActionAsk:
    """An action that may run; its risk is the worse of what is declared and what is claimed."""

    kind: ActionKind
    risk: Risk
    invocation: InvocationContext


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison that a verdict is based on."""

    axis: str
    passed: bool
    why: str


@dataclass(frozen=True, slots=True)
class AdvanceVerdict:
    """Whether to advance instead of asking a person, and why."""

    advance: bool
    checks: tuple[Check, ...]

    def as_data(self) -> dict[str, object]:
        """Return the verdict as JSON-able data for the log."""
        return {"advance": self.advance, "checks": [asdict(check) for check in self.checks]}


@dataclass(frozen=True, slots=True)
class Review:
    """Whether a person must look at the finished action, and why: a failed check demands it."""

    demanded: bool
    checks: tuple[Check, ...]

    def as_data(self) -> dict[str, object]:
        """Return the review as JSON-able data for the log."""
        return {"demanded": self.demanded, "checks": [asdict(check) for check in self.checks]}


def parse(value: Mapping[str, object] | str | None) -> AutonomyPolicy:
    """Read a policy: a composition's name, or axes laid over a composition's own.

    A mapping names its base under `composition` (otherwise plan_then_review) and may give the
    budget as `budget_micro` or as `budget_usd`. Raises PolicyError for the first defective axis.
    """
    named = DEFAULT_COMPOSITION if value is None else value
    given = named if isinstance(named, Mapping) else {"composition": named}
    if unknown := sorted(set(given) - {"composition", "budget_usd", *AXES}):
        raise PolicyError(unknown[0], given[unknown[0]], "only the axes " + ", ".join(AXES))
    base = _composition(given.get("composition", DEFAULT_COMPOSITION))
    data = {**base.as_data(), **given}
    policy = AutonomyPolicy(
        auto_advance_states=words(Gate, data, "auto_advance_states"),
        consent_required_kinds=words(ProposalKind, data, "consent_required_kinds"),
        inference_confidence_floor=fraction(data, "inference_confidence_floor"),
        irreversibility_threshold=word(Level, data, "irreversibility_threshold"),
        regret_potential_threshold=word(Level, data, "regret_potential_threshold"),
        pause_on_risk_amplifier=flag(data, "pause_on_risk_amplifier"),
        allowed_action_kinds=words(ActionKind, data, "allowed_action_kinds"),
        allowed_invocation_contexts=words(InvocationContext, data, "allowed_invocation_contexts"),
        inference_floor_tier=word(Tier, data, "inference_floor_tier"),
        inference_ceiling_tier=word(Tier, data, "inference_ceiling_tier"),
        budget_micro=budget(given, default=base.budget_micro),
        combined_inference=flag(data, "combined_inference"),
    )
    if policy.inference_floor_tier > policy.inference_ceiling_tier:
        allowed = f"at most the inference_ceiling_tier, {policy.inference_ceiling_tier}"
        raise PolicyError("inference_floor_tier", str(policy.inference_floor_tier), allowed)
    return policy


def meet(a: AutonomyPolicy, b: AutonomyPolicy) -> AutonomyPolicy:
    """Return the more conservative of two policies, axis by axis.

    `combined_inference` holds only where both want it: one call for three proposals leaves a person
    fewer places to step in. The floor tier can end up above the ceiling tier; see `tier_for`.
    """
    return AutonomyPolicy(
        auto_advance_states=a.auto_advance_states & b.auto_advance_states,
        consent_required_kinds=a.consent_required_kinds | b.consent_required_kinds,
        inference_confidence_floor=max(a.inference_confidence_floor, b.inference_confidence_floor),
        irreversibility_threshold=min(a.irreversibility_threshold, b.irreversibility_threshold),
        regret_potential_threshold=min(a.regret_potential_threshold, b.regret_potential_threshold),
        pause_on_risk_amplifier=a.pause_on_risk_amplifier or b.pause_on_risk_amplifier,
        allowed_action_kinds=a.allowed_action_kinds & b.allowed_action_kinds,
        allowed_invocation_contexts=a.allowed_invocation_contexts & b.allowed_invocation_contexts,
        inference_floor_tier=max(a.inference_floor_tier, b.inference_floor_tier),
        inference_ceiling_tier=min(a.inference_ceiling_tier, b.inference_ceiling_tier),
        budget_micro=min(a.budget_micro, b.budget_micro),
        combined_inference=a.combined_inference and b.combined_inference,
    )


def effective(policies: Iterable[AutonomyPolicy]) -> AutonomyPolicy:
    """Return the meet of an ancestor chain and the record's own policy; of none, the default."""
    chain = tuple(policies)
    return reduce(meet, chain) if chain else COMPOSITIONS[DEFAULT_COMPOSITION]


def join(declared: Risk, claimed: Risk) -> Risk:
    """Return the worse of what a capability declares and what a model claims of one call."""
    return Risk(
        irreversibility=max(declared.irreversibility, claimed.irreversibility),
        regret_potential=max(declared.regret_potential, claimed.regret_potential),
        risk_amplifier=declared.risk_amplifier or claimed.risk_amplifier,
    )


def advance_verdict(
    policy: AutonomyPolicy,
    *,
    wait_state: str,
    proposal_kind: str,
    confidence: float | None,
    action: ActionAsk | None,
) -> AdvanceVerdict:
    """Decide whether a proposal advances instead of waiting for a person in `wait_state`.

    It advances if every check passes. An action's proposal without its action never advances.
    """
    checks = [
        _check_state(policy, wait_state),
        _check_confidence(policy, confidence),
        _check_consent(policy, proposal_kind),
    ]
    if action is not None:
        checks += _check_action(policy, action)
    elif proposal_kind == ProposalKind.ACTION_INFERRED:
        checks.append(Check("allowed_action_kinds", passed=False, why="the proposal has no action"))
    return AdvanceVerdict(advance=all(check.passed for check in checks), checks=tuple(checks))


def demands_review(policy: AutonomyPolicy, risk: Risk, *, requires_post_review: bool) -> Review:
    """Decide whether an executed action waits for a person's review.

    It does if its capability says so, or if it is above the threshold of irreversibility.
    """
    why = f"the capability asks for {'a' if requires_post_review else 'no'} review of what was done"
    checks = (
        Check("requires_post_review", not requires_post_review, why),
        _check_level("irreversibility", risk.irreversibility, policy.irreversibility_threshold),
    )
    return Review(demanded=not all(check.passed for check in checks), checks=checks)


def tier_for(policy: AutonomyPolicy, default: Tier) -> Tier:
    """Return the tier to infer with: the default, moved between floor and ceiling.

    Where a meet left the floor above the ceiling, the ceiling wins: one policy forbids the dearer
    tier, the other only asks for a better one.
    """
    return min(max(default, policy.inference_floor_tier), policy.inference_ceiling_tier)


def _check_state(policy: AutonomyPolicy, wait_state: str) -> Check:
    passed = wait_state in policy.auto_advance_states
    why = _whether_asked(policy, ASKED_ABOUT.get(wait_state, wait_state), asks=not passed)
    return Check("auto_advance_states", passed, why)


def _check_confidence(policy: AutonomyPolicy, confidence: float | None) -> Check:
    floor = policy.inference_confidence_floor
    if confidence is None or not isfinite(confidence) or not 0 <= confidence <= 1:
        why = f"confidence {confidence} is no number from 0 to 1, the floor is {floor}"
        return Check("inference_confidence_floor", passed=False, why=why)
    passed = confidence >= floor
    relation = "reaches" if passed else "is below"
    why = f"confidence {confidence} {relation} the floor {floor}"
    return Check("inference_confidence_floor", passed, why)


def _check_consent(policy: AutonomyPolicy, proposal_kind: str) -> Check:
    asked = policy.consent_required_kinds
    known = proposal_kind in frozenset[str](ProposalKind)
    passed = known and proposal_kind not in asked
    what = ASKED_ABOUT.get(proposal_kind, proposal_kind)
    why = _whether_asked(policy, what, asks=not passed)
    return Check("consent_required_kinds", passed, why if known else f"{what} is no known proposal")


def _whether_asked(policy: AutonomyPolicy, what: str, *, asks: bool) -> str:
    name = next((name for name, known in COMPOSITIONS.items() if known == policy), "")
    who = f"the policy “{name.replace('_', ' ')}”" if name else "the policy"
    return f"{who} asks a person about every {what}" if asks else f"{who} asks nobody about {what}s"


def _check_action(policy: AutonomyPolicy, action: ActionAsk) -> list[Check]:
    risk = action.risk
    return [
        _check_level("irreversibility", risk.irreversibility, policy.irreversibility_threshold),
        _check_level("regret_potential", risk.regret_potential, policy.regret_potential_threshold),
        Check(
            "pause_on_risk_amplifier",
            not (policy.pause_on_risk_amplifier and risk.risk_amplifier),
            "something makes the action riskier"
            + (", and the policy then asks a person" if policy.pause_on_risk_amplifier else "")
            if risk.risk_amplifier
            else "nothing makes the action riskier",
        ),
        _check_kind(policy, action.kind),
        Check(
            "allowed_invocation_contexts",
            action.invocation in policy.allowed_invocation_contexts,
            f"the action comes from {action.invocation}, "
            f"allowed are {_listed(policy.allowed_invocation_contexts)}",
        ),
    ]


def _check_level(what: str, level: Level, threshold: Level) -> Check:
    passed = level <= threshold
    relation = "is within" if passed else "is above"
    why = f"{what} {level} {relation} the threshold {threshold}"
    return Check(f"{what}_threshold", passed, why)


def _check_kind(policy: AutonomyPolicy, kind: ActionKind) -> Check:
    allowed = policy.allowed_action_kinds
    if kind is not ActionKind.STANDARD:
        why = f"an action of kind {kind} never runs without a person, whatever the policy allows"
        return Check("allowed_action_kinds", passed=False, why=why)
    why = f"the action's kind is {kind}, allowed are {_listed(allowed)}"
    return Check("allowed_action_kinds", kind in allowed, why)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _composition(name: object) -> AutonomyPolicy:
    if isinstance(name, str) and name in COMPOSITIONS:
        return COMPOSITIONS[name]
    raise PolicyError("composition", name, ", ".join(COMPOSITIONS))


def _plain(value: object) -> object:
    if isinstance(value, frozenset):
        return sorted(map(str, value))
    return str(value) if isinstance(value, StrEnum) else value
