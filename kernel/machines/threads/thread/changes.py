"""What a thread's rows ask and change: guards, updates, explanations. Pure functions of an Ask."""

from __future__ import annotations

from typing import Any

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.machines.threads.autonomy import (
    ActionAsk,
    ActionKind,
    AdvanceVerdict,
    AutonomyPolicy,
    Gate,
    InvocationContext,
    ProposalKind,
    Review,
    Risk,
    demands_review,
    effective,
    join,
    judge,
    parse,
)
from interlock.kernel.machines.threads.thread.payloads import PROPOSED, NewThread
from interlock.kernel.payload import validated
from interlock.kernel.policy_axis import PolicyError
from interlock.kernel.table import Ask, Data

FEEDBACK_MAX = 20
DECOMPOSE = "decompose"
TARGETS = ("intent", "context", "action")
TARGET_OF = dict(zip(ProposalKind, TARGETS, strict=True))


def birth(payload: Data) -> Data:
    """Check what a producer hands in and make the first data of it."""
    data = dict(validated(NewThread, "the thread", payload))
    try:
        policy = parse(data.get("policy"))
    except PolicyError as refusal:
        raise InvalidPayloadError("the thread", [f"policy: {refusal}"]) from None
    children, relationship = data.pop("children"), data.pop("relationship")
    if children:
        data["given"] = {**_umbrella(data, children, relationship), **data.get("given", {})}
    return {
        **data,
        "policy": policy.as_data(),
        "target": "intent",
        "proposals": {},
        "feedback": [],
        "proposed": 0,
    }


def part(parent: Data, child: Data) -> tuple[Data, int | None]:
    """Return what a child is born from, and its own cap if it asks for one."""
    source = parent["inciting"]
    inciting = {
        "source": source.get("source", "producer"),
        "title": child.get("title", ""),
        "text": child.get("text", ""),
        "at": source.get("at"),
        "fields": child.get("fields", {}),
    }
    policy = child.get("policy")
    payload = {
        "inciting": {name: value for name, value in inciting.items() if value is not None},
        "items": child.get("items", []),
        "policy": policy if policy is not None else parent["policy"],
        "remind_s": parent["remind_s"],
    }
    if child.get("given"):
        payload["given"] = child["given"]
    # A part that says nothing of money spends from its parent's cap alone.
    return payload, parse(policy).budget_micro if policy is not None else None


def _umbrella(data: Data, children: list[Any], relationship: str) -> dict[str, Any]:
    action = {
        "kind": "standard",
        "capability": DECOMPOSE,
        "parameters": {
            "children": [_part(child) for child in children],
            "relationship": relationship,
        },
        "summary": f"split into {len(children)} parts",
        "irreversibility": "low",
        "regret_potential": "low",
        "risk_amplifier": False,
    }
    title = data["inciting"]["title"] or "several matters"
    return {"intent": f"resolve the parts of: {title}"[:2_000], "item_ids": [], "action": action}


def _part(child: Data) -> Data:
    always = ("title", "text")
    return {name: value for name, value in child.items() if value or name in always}


def policy_of(data: Data, facts: Data) -> AutonomyPolicy:
    """Return the effective policy: the most conservative of the record's and its ancestors'."""
    above = [parse(fact["policy"]) for _, fact in sorted(facts.items()) if fact.get("policy")]
    return effective([*above, parse(data["policy"])])


def risk_of(action: Data, declared: Data | None) -> Risk:
    """Return an action's risk: what its capability declares is the lower bound of the claim.

    An action whose capability declared nothing counts as the worst, whatever is claimed of it.
    """
    return join(Risk.read(declared or {}), Risk.read(action))


# --- guards ----------------------------------------------------------------------------------


def at_intent(ask: Ask) -> bool:
    """Whether the next inference is about the intent."""
    return bool(ask.data["target"] == "intent")


def at_context(ask: Ask) -> bool:
    """Whether the next inference is about the context."""
    return bool(ask.data["target"] == "context")


def _verdict(ask: Ask, gate: Gate, kind: ProposalKind) -> AdvanceVerdict:
    proposal = _shaped(ask, TARGET_OF[kind])
    action = None
    if kind is ProposalKind.ACTION_INFERRED:
        action = ActionAsk(
            kind=ActionKind(proposal["payload"]["kind"]),
            risk=risk_of(proposal["payload"], ask.payload.get("declared")),
            invocation=InvocationContext.ACTION_PROPOSAL,
        )
    return judge(
        policy_of(ask.data, ask.facts),
        wait_state=gate,
        proposal_kind=kind,
        confidence=proposal["confidence"],
        action=action,
    )


def intent_verdict(ask: Ask) -> AdvanceVerdict:
    """Judge an inferred intent by the policy."""
    return _verdict(ask, Gate.AWAITING_INTENT_CONFIRMATION, ProposalKind.INTENT_INFERRED)


def context_verdict(ask: Ask) -> AdvanceVerdict:
    """Judge an inferred context by the policy."""
    return _verdict(ask, Gate.AWAITING_CONTEXT_CONFIRMATION, ProposalKind.CONTEXT_INFERRED)


def action_verdict(ask: Ask) -> AdvanceVerdict:
    """Judge an inferred action by the policy."""
    return _verdict(ask, Gate.AWAITING_CONFIRMATION, ProposalKind.ACTION_INFERRED)


def unclear(ask: Ask) -> bool:
    """Whether the model says that it cannot propose an action."""
    return bool(_shaped(ask, "action")["payload"]["kind"] == ActionKind.CLARIFICATION)


def _shaped(ask: Ask, target: str) -> dict[str, Any]:
    # Which shape a proposal must have is known only with the record in hand.
    proposal = dict(ask.payload["proposal"])
    payload = proposal["payload"] if isinstance(proposal["payload"], dict) else {}
    validated(PROPOSED[target], f"the proposed {target}", payload)
    return proposal


def gives_action(ask: Ask) -> bool:
    """Whether a person's answer is a whole action."""
    return bool(ask.payload.get("capability"))


def runnable(ask: Ask) -> bool:
    """Whether the current proposal can be executed. A cleared one cannot, nor anything older."""
    action = ask.data["proposals"].get("action")
    if not action or action.get("cleared"):
        return False
    standard = action["payload"].get("kind") == ActionKind.STANDARD
    return bool(standard and action["payload"].get("capability"))


def edits_intent(ask: Ask) -> bool:
    """Whether an edit fits the card that asks about the intent."""
    return set(ask.payload) - {"clear"} == {"intent"}


def edits_context(ask: Ask) -> bool:
    """Whether an edit fits the card that asks about the context."""
    return set(ask.payload) - {"clear"} == {"item_ids"}


def edits_action(ask: Ask) -> bool:
    """Whether an edit fits the card that asks about the action."""
    fields = {name for name, value in ask.payload.items() if value is not False}
    known = bool(ask.data["proposals"].get("action"))
    fits = fields <= {"capability", "parameters", "declared", "clear"}
    return fits and bool(ask.payload.get("clear") or ask.payload.get("capability") or known)


def review(ask: Ask) -> Review:
    """Judge whether a person looks at what was done."""
    action = ask.data["proposals"]["action"]
    declared = action.get("declared") or {}
    return demands_review(
        policy_of(ask.data, ask.facts),
        risk_of(action["payload"], declared),
        requires_post_review=bool(declared.get("requires_post_review")),
    )


def all_dismissed(ask: Ask) -> bool:
    """Whether every alternative of a singular matter was dismissed."""
    tally = ask.payload["tally"]
    return ask.data.get("relationship") == "singular" and set(tally) == {"dismissed"}


# --- updates ---------------------------------------------------------------------------------


def propose(target: str, following: str) -> Any:
    """Return the update that keeps a proposal and turns to the following target."""

    def update(ask: Ask) -> Data:
        number = ask.data["proposed"] + 1
        kept: dict[str, Any] = {**_shaped(ask, target), "id": f"{target}-{number}"}
        if ask.payload.get("declared"):
            kept["declared"] = ask.payload["declared"]
        prefetched = {**ask.data.get("prefetched", {}), **ask.payload.get("prefetched", {})}
        prefetched.pop(target, None)
        rest = {
            name: value for name, value in ask.data.items() if name not in ("prefetched", "failure")
        }
        given = {name: v for name, v in rest.pop("given", {}).items() if name not in GIVEN[target]}
        return {
            **rest,
            **({"given": given} if given else {}),
            **({"prefetched": prefetched} if prefetched else {}),
            "proposals": {**ask.data["proposals"], target: kept},
            "proposed": number,
            "target": following,
        }

    return update


GIVEN = {"intent": ("intent",), "context": ("item_ids",), "action": ("action",)}


def towards(target: str) -> Any:
    """Return the update that a person's yes makes: go on with the next target."""

    def update(ask: Ask) -> Data:
        return {**ask.data, "target": target}

    return update


def edit_intent(ask: Ask) -> Data:
    """Take a person's intent instead of the model's."""
    return _personal(ask, "intent", {"intent": ask.payload["intent"]}, "context")


def edit_context(ask: Ask) -> Data:
    """Take a person's context instead of the model's."""
    return _personal(ask, "context", {"item_ids": ask.payload["item_ids"]}, "action")


def edit_action(ask: Ask) -> Data:
    """Take a person's action, or a tombstone: after it nothing older may run."""
    if ask.payload.get("clear"):
        data = _personal(ask, "action", {"kind": "clarification"}, "action")
        cleared = {**data["proposals"]["action"], "cleared": True}
        return {**data, "proposals": {**data["proposals"], "action": cleared}}
    old = ask.data["proposals"].get("action") or {"payload": {}}
    before = old["payload"]
    capability = ask.payload.get("capability") or before.get("capability")
    same = capability == before.get("capability") and not old.get("cleared")
    risk = ("irreversibility", "regret_potential", "risk_amplifier")
    declared = ask.payload.get("declared") or (old.get("declared") if same else None)
    claimed = {name: before[name] for name in risk if same and name in before}
    payload = {
        "kind": "standard",
        "capability": capability,
        "parameters": ask.payload.get("parameters", before.get("parameters", {}) if same else {}),
        "summary": before.get("summary", "") if same else "",
        **{
            name: (declared or {}).get(name)
            for name in risk
            if (declared or {}).get(name) is not None
        },
        **claimed,
    }
    return _personal(ask, "action", payload, "action", declared)


def give_action(ask: Ask) -> Data:
    """Take a whole action as a person's answer; it still waits for consent."""
    return edit_action(ask)


def _personal(
    ask: Ask, target: str, payload: Data, following: str, declared: Data | None = None
) -> Data:
    number = ask.data["proposed"] + 1
    kept: dict[str, Any] = {"id": f"{target}-{number}", "payload": payload, "confidence": 1.0}
    if declared:
        kept["declared"] = declared
    rest = {name: value for name, value in ask.data.items() if name not in ("prefetched", "given")}
    return {
        **rest,
        "proposals": {**ask.data["proposals"], target: {**kept, "by": "person"}},
        "proposed": number,
        "target": following,
        "feedback": _heard(ask, target, "edited", "", payload),
    }


def _heard(ask: Ask, phase: str, kind: str, text: str, values: Data) -> list[Any]:
    line = {"phase": phase, "kind": kind, "text": text, "values": values}
    return [*ask.data["feedback"], line][-FEEDBACK_MAX:]


def answered(target: str) -> Any:
    """Return the update that takes a person's answer into the next inference of a target."""

    def update(ask: Ask) -> Data:
        payload = ask.payload
        heard = _heard(ask, target, "provided", payload.get("text", ""), payload.get("values", {}))
        return {**_again(ask, target), "feedback": heard}

    return update


def redirected(target: str) -> Any:
    """Return the update that starts again from a phase, by default the one of the card."""

    def update(ask: Ask) -> Data:
        chosen = ask.payload.get("target", target)
        heard = _heard(ask, chosen, "redirected", ask.payload.get("feedback", ""), {})
        return {**_again(ask, chosen), "feedback": heard}

    return update


def _again(ask: Ask, target: str) -> dict[str, Any]:
    # What comes after the phase that is asked again rests on it, so it goes.
    later = TARGETS[TARGETS.index(target) + 1 :]
    rest = {name: value for name, value in ask.data.items() if name not in ("prefetched", "given")}
    proposals = {name: kept for name, kept in ask.data["proposals"].items() if name not in later}
    return {**rest, "proposals": proposals, "target": target}


def failed(ask: Ask) -> Data:
    """Keep why something failed, for the card and for the next inference."""
    payload = ask.payload
    failure = {"code": payload.get("code", "unknown"), "detail": payload.get("detail", "")}
    kept = {**ask.data, "failure": failure}
    if payload.get("run"):
        kept["run"] = payload["run"]
    return kept


def executed(ask: Ask) -> Data:
    """Keep what a capability answered."""
    rest = {name: value for name, value in ask.data.items() if name != "failure"}
    return {**rest, "result": ask.payload.get("result"), "run": ask.payload.get("run", "")}


def decomposed(ask: Ask) -> Data:
    """Keep the list of children: it is fixed before the first is born, so attempts agree."""
    return {
        **ask.data,
        "children": ask.payload["children"],
        "relationship": ask.payload["relationship"],
    }


def tallied(ask: Ask) -> Data:
    """Keep how the children ended."""
    return {**ask.data, "tally": ask.payload["tally"]}


def ended(ask: Ask) -> Data:
    """Keep why a person ended it."""
    return {**ask.data, "reason": ask.payload.get("reason", "")}


def handed_off(ask: Ask) -> Data:
    """Keep who goes on with it."""
    return {**ask.data, "handed_off": dict(ask.payload)}


def cleaned(ask: Ask) -> Data:
    """Keep how the source was tidied up."""
    return {**ask.data, "cleaned": dict(ask.payload)}
