"""The guards of a thread's rows, and their explanations. Pure functions of an Ask."""

from __future__ import annotations

from typing import Any

from interlock import validated
from interlock.system.tables import RecordData as Data
from interlock.systems.threads.machines.autonomy import (
    ActionAsk,
    ActionKind,
    AdvanceVerdict,
    AutonomyPolicy,
    Check,
    Gate,
    InvocationContext,
    ProposalKind,
    Review,
    Risk,
    advance_verdict,
    demands_review,
    effective,
    join,
    parse,
)
from interlock.systems.threads.machines.thread import corrections
from interlock.systems.threads.machines.thread.data import ThreadAsk, ThreadData
from interlock.systems.threads.machines.thread.payloads import PROPOSED

TARGETS = ("intent", "context", "action")
CORRECTED = Check(
    "correction", passed=False, why="what was made of a person's words is shown before it runs"
)
TARGET_OF = dict(zip(ProposalKind, TARGETS, strict=True))


def policy_of(data: ThreadData, facts: Data) -> AutonomyPolicy:
    """Return the effective policy: the most conservative of the record's and its ancestors'."""
    above = [parse(fact["policy"]) for _, fact in sorted(facts.items()) if fact.get("policy")]
    return effective([*above, parse(data["policy"])])


def risk_of(action: Data, declared: Data | None) -> Risk:
    """Return an action's risk: at least what its capability declares, whatever a model claims.

    An action whose capability declares nothing counts as the worst.
    """
    return join(Risk.read(declared or {}), Risk.read(action))


def checked_proposal(ask: ThreadAsk, target: str) -> dict[str, Any]:
    """Return the proposal of a payload. Raises InvalidPayloadError where it is not for `target`."""
    # The shape that a proposal must have is known only with the record in hand.
    proposal = dict(ask.payload["proposal"])
    payload = proposal["payload"] if isinstance(proposal["payload"], dict) else {}
    validated(PROPOSED[target], f"the proposed {target}", payload)
    return proposal


def at_intent(ask: ThreadAsk) -> bool:
    """Whether the next inference is about the intent."""
    return ask.data["target"] == "intent"


def at_context(ask: ThreadAsk) -> bool:
    """Whether the next inference is about the context."""
    return ask.data["target"] == "context"


def intent_advances(ask: ThreadAsk) -> bool:
    """Whether an inferred intent needs no person."""
    return _intent_verdict(ask).advance


def context_advances(ask: ThreadAsk) -> bool:
    """Whether an inferred context needs no person."""
    return _context_verdict(ask).advance


def action_advances(ask: ThreadAsk) -> bool:
    """Whether an inferred action needs no person."""
    return _action_verdict(ask).advance


def explain_intent(ask: ThreadAsk) -> Data:
    """Explain the decision about an intent."""
    return _intent_verdict(ask).as_data()


def explain_context(ask: ThreadAsk) -> Data:
    """Explain the decision about a context."""
    return _context_verdict(ask).as_data()


def explain_action(ask: ThreadAsk) -> Data:
    """Explain the decision about an action."""
    return _action_verdict(ask).as_data()


def explain_unclear(ask: ThreadAsk) -> Data:
    """Explain why a person is asked for the action: say what the model did not know."""
    asked = checked_proposal(ask, "action")["payload"].get("blocked_on") or "it does not say what"
    why = f"the model lacks something: {asked}"
    check = Check("allowed_action_kinds", passed=False, why=why)
    return AdvanceVerdict(advance=False, checks=(check,)).as_data()


def unclear(ask: ThreadAsk) -> bool:
    """Whether the model says that it cannot propose an action."""
    return bool(checked_proposal(ask, "action")["payload"]["kind"] == ActionKind.CLARIFICATION)


def repeats(ask: ThreadAsk) -> bool:
    """Whether a proposed call was turned down before."""
    return bool(_why_turned_down(ask))


def explain_repeats(ask: ThreadAsk) -> Data:
    """Explain why a call that was turned down before is not proposed again."""
    why = f"the call is the same again that was turned down: {_why_turned_down(ask)}"
    check = Check("correction", passed=False, why=why)
    return AdvanceVerdict(advance=False, checks=(check,)).as_data()


def _why_turned_down(ask: ThreadAsk) -> str:
    action = checked_proposal(ask, "action")["payload"]
    return corrections.why_turned_down(ask.data, action) if corrections.is_call(action) else ""


def _intent_verdict(ask: ThreadAsk) -> AdvanceVerdict:
    return _verdict(ask, Gate.AWAITING_INTENT_CONFIRMATION, ProposalKind.INTENT_INFERRED)


def _context_verdict(ask: ThreadAsk) -> AdvanceVerdict:
    return _verdict(ask, Gate.AWAITING_CONTEXT_CONFIRMATION, ProposalKind.CONTEXT_INFERRED)


def _action_verdict(ask: ThreadAsk) -> AdvanceVerdict:
    verdict = _verdict(ask, Gate.AWAITING_CONFIRMATION, ProposalKind.ACTION_INFERRED)
    if not corrections.is_corrected(ask.data):
        return verdict
    return AdvanceVerdict(advance=False, checks=(*verdict.checks, CORRECTED))


def _verdict(ask: ThreadAsk, gate: Gate, kind: ProposalKind) -> AdvanceVerdict:
    proposal = checked_proposal(ask, TARGET_OF[kind])
    action = None
    if kind is ProposalKind.ACTION_INFERRED:
        action = ActionAsk(
            kind=ActionKind(proposal["payload"]["kind"]),
            risk=risk_of(proposal["payload"], ask.payload.get("declared")),
            invocation=InvocationContext.ACTION_PROPOSAL,
        )
    return advance_verdict(
        policy_of(ask.data, ask.facts),
        wait_state=gate,
        proposal_kind=kind,
        confidence=proposal["confidence"],
        action=action,
    )


def gives_action(ask: ThreadAsk) -> bool:
    """Whether a person's answer is an action, and not words beside the one that was shown."""
    named = bool(ask.payload.get("capability"))
    return named and not (
        ask.payload.get("text", "").strip() and corrections.repeats_proposed(ask.data, ask.payload)
    )


def gives_call(ask: ThreadAsk) -> bool:
    """Whether a person's answer is a capability with its parameters, and was not turned down."""
    exact = ask.payload.get("parameters") is not None
    return exact and gives_action(ask) and not corrections.why_turned_down(ask.data, ask.payload)


def gives_call_about_no_items(ask: ThreadAsk) -> bool:
    """Whether a person's answer is a call, in a thread in which nobody has to choose items."""
    return not ask.data.get("items") and gives_call(ask)


def runnable(ask: ThreadAsk) -> bool:
    """Whether the current proposal can be executed; a cleared one cannot, nor anything older."""
    return is_runnable(ask.data)


def is_runnable(data: ThreadData) -> bool:
    """Whether the proposal of a thread with this data can be executed."""
    action = data["proposals"].get("action")
    if not action or action.get("cleared"):
        return False
    standard = action["payload"].get("kind") == ActionKind.STANDARD
    return bool(standard and action["payload"].get("capability"))


def edits_intent(ask: ThreadAsk) -> bool:
    """Whether an edit fits the card that asks about the intent."""
    return set(ask.payload) == {"intent"}


def edits_context(ask: ThreadAsk) -> bool:
    """Whether an edit fits the card that asks about the context."""
    return set(ask.payload) == {"item_ids"}


def edits_action(ask: ThreadAsk) -> bool:
    """Whether an edit fits the card that asks about the action."""
    known = bool(ask.data["proposals"].get("action"))
    fits = set(ask.payload) <= {"capability", "parameters", "declared", "clear", "reason"}
    return fits and bool(ask.payload.get("clear") or ask.payload.get("capability") or known)


def review_demanded(ask: ThreadAsk) -> bool:
    """Whether a person looks at what was done."""
    return _review(ask).demanded


def explain_review(ask: ThreadAsk) -> Data:
    """Explain the decision about a review."""
    return _review(ask).as_data()


def _review(ask: ThreadAsk) -> Review:
    action = ask.data["proposals"]["action"]
    declared = action.get("declared") or {}
    return demands_review(
        policy_of(ask.data, ask.facts),
        risk_of(action["payload"], declared),
        requires_post_review=bool(declared.get("requires_post_review")),
    )


def all_dismissed(ask: ThreadAsk) -> bool:
    """Whether every alternative of a singular matter was dismissed."""
    tally = ask.payload["tally"]
    return ask.data.get("relationship") == "singular" and set(tally) == {"dismissed"}
