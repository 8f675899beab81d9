"""Data and payloads with which every row of every machine can be followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel.machines.thread.changes import birth

Data = Mapping[str, Any]

LOW = {"irreversibility": "low", "regret_potential": "low", "risk_amplifier": False}
DECLARED = {**LOW, "idempotent": True}
INCITING = {"title": "Call the dentist", "text": "Tooth hurts"}


def thread(policy: str = "plan_then_review", **more: Any) -> Data:
    """Return the data of a thread that was just born."""
    return birth({"inciting": INCITING, "policy": policy, **more})


def action(kind: str = "standard", **more: Any) -> dict[str, Any]:
    """Return the payload of a proposed action."""
    return {"kind": kind, "capability": "notes.append", "parameters": {"text": "x"}, **LOW, **more}


def proposal(payload: Data, confidence: float = 0.9) -> dict[str, Any]:
    return {"payload": payload, "confidence": confidence}


def proposed(payload: Data, confidence: float = 0.9, **more: Any) -> dict[str, Any]:
    """Return the payload of a finished inference."""
    return {"proposal": proposal(payload, confidence), **more}


def threads() -> tuple[Data, ...]:
    ready = {"id": "action-1", "declared": DECLARED, **proposal(action())}
    reviewed = {**ready, "declared": {**DECLARED, "requires_post_review": True}}
    return tuple(
        {**thread(policy), "target": target, "proposals": proposals, "relationship": together}
        for policy in ("end_to_end", "hands_off")
        for target in ("intent", "context", "action")
        for proposals in ({"action": ready}, {"action": reviewed})
        for together in ("decompose", "singular")
    )


SAMPLES: dict[str, tuple[Sequence[Data], Mapping[str, Sequence[Data]]]] = {
    "thread": (
        threads(),
        {
            "inference_started": ({"model": "embedded"},),
            "inference_done": (
                proposed({"intent": "see a dentist"}),
                proposed({"item_ids": ["a"]}),
                proposed(action(), declared=DECLARED),
                proposed(action("clarification")),
            ),
            "inference_failed": ({"code": "timeout"},),
            "budget_exceeded": ({"estimate_micro": 5},),
            "edited": (
                {"intent": "do nothing"},
                {"item_ids": []},
                {"capability": "notes.append", "parameters": {}},
            ),
            "redirected": ({"feedback": "no"},),
            "provided": ({"text": "tomorrow"}, {"capability": "notes.append"}),
            "rejected": ({"reason": "no"},),
            "execution_done": ({"result": 1, "run": "2.0:x"},),
            "execution_failed": ({"code": "deadline"},),
            "decomposed": ({"children": [{"title": "one"}]},),
            "children_done": ({"tally": {"done": 1}}, {"tally": {"dismissed": 2}}),
            "cancel_requested": ({"reason": "stop"},),
            "cancel_confirmed": ({"reason": "stopped"},),
            "cleanup_succeeded": ({"detail": "gone"},),
            "cleanup_failed": ({"code": "cleanup"},),
            "handed_off": ({"to": "Ann", "kind": "person", "reference": "mail 7"},),
            "dismissed_by_user": ({"reason": "no"},),
            "parent_force_close": ({"reason": "closing"},),
        },
    ),
}
