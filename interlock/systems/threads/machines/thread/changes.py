"""The updates of a thread's rows, and the first data of a thread. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock import validated
from interlock.system.errors import InvalidPayloadError
from interlock.system.tables import RecordData as Data
from interlock.system.tables import as_sentence
from interlock.systems.threads.machines.autonomy import ActionKind, parse
from interlock.systems.threads.machines.policy_axis import PolicyError
from interlock.systems.threads.machines.thread import corrections, guards, limits
from interlock.systems.threads.machines.thread.data import (
    FeedbackLine,
    ProposalData,
    ThreadAsk,
    ThreadData,
    ThreadFailureData,
    thread_data,
    without,
)
from interlock.systems.threads.machines.thread.guards import TARGETS, checked_proposal, risk_of
from interlock.systems.threads.machines.thread.names import Trigger
from interlock.systems.threads.machines.thread.payloads import REQUEST_HOST, NewThread

Update = Callable[[ThreadAsk], ThreadData]
DECOMPOSE = "decompose"
UNSAID = "no reason was given."
# The fields of `given` that a proposal for a target replaces.
GIVEN = {"intent": ("intent",), "context": ("item_ids",), "action": ("action",)}
RISK = ("irreversibility", "regret_potential", "risk_amplifier")


def initial_data(payload: Data) -> ThreadData:
    """Check what a producer hands in and return the first data of the thread."""
    data = thread_data(validated(NewThread, "the thread", payload))
    try:
        policy = parse(data.get("policy"))
    except PolicyError as refusal:
        raise InvalidPayloadError("the thread", [f"policy: {refusal}"]) from None
    children, relationship = data.pop("children"), data.pop("relationship")
    if children:
        data["given"] = {**_split(data, children, relationship), **data.get("given", {})}
    return {
        **data,
        "policy": policy.as_data(),
        "target": "intent",
        "proposals": {},
        "feedback": [],
        "proposed": 0,
    }


def bounds(data: ThreadData) -> Mapping[str, int | None]:
    """Return what the policy lets the thread and all below it spend."""
    return _bounds_of(data["policy"])


def _bounds_of(policy: Mapping[str, Any] | str) -> Mapping[str, int | None]:
    return {"spent": parse(policy).budget_micro}


def host(data: ThreadData) -> str:
    """Return the computer that has the thread's request, or '' if none was named."""
    return str(data["inciting"].get("fields", {}).get(REQUEST_HOST) or "")


def child_payload(
    parent: ThreadData, child: Data, siblings: Sequence[str]
) -> tuple[Data, Mapping[str, int | None]]:
    """Return what a child is created from, and its own cap if it asks for one."""
    del siblings
    source = parent["inciting"]
    # A part is in the source of the whole, so it is on the same computer and on no other.
    fields = {k: v for k, v in child.get("fields", {}).items() if k != REQUEST_HOST}
    where = {REQUEST_HOST: host(parent)} if host(parent) else {}
    inciting = {
        "source": source.get("source", "producer"),
        "title": child.get("title", ""),
        "text": child.get("text", ""),
        "at": source.get("at"),
        "fields": {**fields, **where},
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
    # A child without a policy of its own spends from its parent's cap alone.
    return payload, _bounds_of(policy) if policy is not None else {}


def _split(data: ThreadData, children: Sequence[Data], relationship: str) -> dict[str, Any]:
    """Return the proposals that make the thread consist of the children that it was given."""
    action = {
        "kind": "standard",
        "capability": DECOMPOSE,
        "parameters": {
            "children": [_without_empty(child) for child in children],
            "relationship": relationship,
        },
        "summary": f"split into {len(children)} parts",
        "irreversibility": "low",
        "regret_potential": "low",
        "risk_amplifier": False,
    }
    title = data["inciting"]["title"] or "several matters"
    return {
        "intent": f"resolve the parts of: {title}"[: limits.LINE_LENGTH_MAX],
        "item_ids": [],
        "action": action,
    }


def _without_empty(child: Data) -> Data:
    return {name: value for name, value in child.items() if value or name in ("title", "text")}


def propose(target: str, following: str) -> Update:
    """Return the update that keeps a proposal and turns to the target that follows."""

    def update(ask: ThreadAsk) -> ThreadData:
        number, found = ask.data["proposed"] + 1, checked_proposal(ask, target)
        kept: ProposalData = {
            "payload": found["payload"],
            "confidence": found["confidence"],
            "id": f"{target}-{number}",
        }
        if declared := ask.payload.get("declared"):
            kept["declared"] = declared
        # A clarification runs nothing: it keeps what its model claims, for the action that follows.
        if target == "action" and kept["payload"]["kind"] != ActionKind.CLARIFICATION:
            kept["payload"] = _with_risk(kept["payload"], declared)
        data = without(ask.data, "prefetched", "failure", "given")
        given = ask.data.get("given", {})
        if rest := {name: v for name, v in given.items() if name not in GIVEN[target]}:
            data["given"] = rest
        prefetched = {**ask.data.get("prefetched", {}), **ask.payload.get("prefetched", {})}
        prefetched.pop(target, None)
        if prefetched:
            data["prefetched"] = prefetched
        return {
            **data,
            "proposals": {**ask.data["proposals"], target: kept},
            "proposed": number,
            "target": following,
        }

    return update


def towards(target: str) -> Update:
    """Return the update of a person's consent: go on with the next target."""

    def update(ask: ThreadAsk) -> ThreadData:
        return {**ask.data, "target": target}

    return update


def edit_intent(ask: ThreadAsk) -> ThreadData:
    """Take a person's intent instead of the model's."""
    return _personal(ask, "intent", {"intent": ask.payload["intent"]}, "context")


def edit_context(ask: ThreadAsk) -> ThreadData:
    """Take a person's context instead of the model's."""
    return _personal(ask, "context", {"item_ids": ask.payload["item_ids"]}, "action")


def edit_action(ask: ThreadAsk) -> ThreadData:
    """Take a person's action, or clear it: after a cleared one nothing older may run."""
    if ask.payload.get("clear"):
        data = _personal(ask, "action", {"kind": "clarification"}, "action")
        cleared: ProposalData = {**data["proposals"]["action"], "cleared": True}
        return {**data, "proposals": {**data["proposals"], "action": cleared}}
    old = ask.data["proposals"].get("action")
    before = old["payload"] if old else {}
    capability = ask.payload.get("capability") or before.get("capability")
    same = capability == before.get("capability") and not (old and old.get("cleared"))
    declared = ask.payload.get("declared") or (old.get("declared") if old and same else None)
    claimed = {name: before[name] for name in RISK if same and name in before}
    declared_risk = {name: value for name, value in (declared or {}).items() if name in RISK}
    payload = {
        "kind": "standard",
        "capability": capability,
        "parameters": ask.payload.get("parameters", before.get("parameters", {}) if same else {}),
        "summary": before.get("summary", "") if same else "",
        **(claimed or declared_risk),
    }
    return _personal(ask, "action", _with_risk(payload, declared), "action", declared)


def _with_risk(action: Data, declared: Data | None) -> Data:
    """Return an action with the risk that is in force, whatever its model claims."""
    return {**action, **risk_of(action, declared).as_data()}


def give_action(ask: ThreadAsk) -> ThreadData:
    """Take the action that a person answered with."""
    return edit_action(ask)


def _personal(
    ask: ThreadAsk, target: str, payload: Data, following: str, declared: Data | None = None
) -> ThreadData:
    number = ask.data["proposed"] + 1
    kept: ProposalData = {"id": f"{target}-{number}", "payload": payload, "confidence": 1.0}
    if declared:
        kept["declared"] = declared
    kept["by"] = "person"
    return {
        **without(ask.data, "prefetched", "given", "failure"),
        "proposals": {**ask.data["proposals"], target: kept},
        "proposed": number,
        "target": following,
        "feedback": _feedback(ask, target, Trigger.EDITED, ask.payload.get("text", ""), payload),
    }


def _feedback(
    ask: ThreadAsk, phase: str, kind: Trigger, text: str, values: Data
) -> Sequence[FeedbackLine]:
    line: FeedbackLine = {"phase": phase, "kind": str(kind), "text": text, "values": values}
    return [*ask.data["feedback"], line][-limits.FEEDBACK_MAX :]


def answered(target: str) -> Update:
    """Return the update that takes a person's answer into the next inference of a target.

    An answer that names a capability says so to the model in words. Words beside the parameters
    that were shown are there to change them, so those are left out.
    """

    def update(ask: ThreadAsk) -> ThreadData:
        payload = ask.payload
        text = payload.get("text", "").strip() or payload.get("capability", "")
        named = guards.gives_action(ask)
        values = {**(payload.get("parameters") or {} if named else {}), **payload.get("values", {})}
        feedback = _feedback(ask, target, Trigger.PROVIDED, text, values)
        return {**_restarted(ask, target), "feedback": feedback}

    return update


def redirected(target: str) -> Update:
    """Return the update that starts again from a phase, by default the one of the card."""

    def update(ask: ThreadAsk) -> ThreadData:
        chosen = ask.payload.get("target", target)
        feedback = _feedback(ask, chosen, Trigger.REDIRECTED, ask.payload.get("feedback", ""), {})
        noted = replace(ask, data=corrections.turned_down(ask.data, corrections.OTHER_WANTED))
        return {**_restarted(noted, chosen), "feedback": feedback}

    return update


def _restarted(ask: ThreadAsk, target: str) -> ThreadData:
    # Later proposals rest on the one that is inferred again, so they go.
    later = TARGETS[TARGETS.index(target) + 1 :]
    proposals = {name: kept for name, kept in ask.data["proposals"].items() if name not in later}
    data = without(ask.data, "prefetched", "given")
    return {**data, "proposals": proposals, "target": target}


def failed(ask: ThreadAsk) -> ThreadData:
    """Keep why something failed, for the card and for the next inference."""
    payload = ask.payload
    failure: ThreadFailureData = {
        "code": payload.get("code", "unknown"),
        "detail": payload.get("detail", ""),
    }
    if payload.get("options"):
        failure["options"] = payload["options"]
    kept: ThreadData = {**ask.data, "failure": failure}
    if payload.get("run"):
        kept["run"] = payload["run"]
    return kept


def why_failed(data: ThreadData) -> str:
    """Return the detail of a failure as a sentence, or ''."""
    failure = data.get("failure")
    return as_sentence(failure["detail"]) if failure else ""


def execution_failed(ask: ThreadAsk) -> ThreadData:
    """Keep why a call failed, and that it did: after a correction it is not proposed again."""
    kept = failed(ask)
    return corrections.turned_down(kept, f"it failed: {why_failed(kept) or UNSAID}")


def executed(ask: ThreadAsk) -> ThreadData:
    """Keep what a capability returned."""
    result, run = ask.payload.get("result"), ask.payload.get("run", "")
    return {**without(ask.data, "failure"), "result": result, "run": run}


def decomposed(ask: ThreadAsk) -> ThreadData:
    """Keep the list of children: it is fixed before the first is created, so attempts agree."""
    return {
        **ask.data,
        "children": ask.payload["children"],
        "relationship": ask.payload["relationship"],
    }


def tallied(ask: ThreadAsk) -> ThreadData:
    """Keep how the children ended."""
    return {**ask.data, "tally": ask.payload["tally"]}


def ended(ask: ThreadAsk) -> ThreadData:
    """Keep why a person ended the thread."""
    return {**ask.data, "reason": ask.payload.get("reason", "")}


def handed_off(ask: ThreadAsk) -> ThreadData:
    """Keep who goes on with the matter."""
    return {**ask.data, "handed_off": dict(ask.payload)}


def cleaned(ask: ThreadAsk) -> ThreadData:
    """Keep how the source was tidied up."""
    return {**ask.data, "cleaned": dict(ask.payload)}
