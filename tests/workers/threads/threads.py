"""Brings threads to each place where a person is asked, by the triggers that workers would fire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from interlock.kernel.effect import Kind
from interlock.kernel.event import Cause
from interlock.kernel.record import Record
from interlock.kernel.store.commands import Call, Warrant
from interlock.kernel.store.leases import Lease
from interlock.workers.client import Client
from interlock.workers.config import Settings

EFFECTS = ("inference_", "execution_", "cleanup_failed")
Step = tuple[str, Mapping[str, Any]]
ACTION = {
    "kind": "standard",
    "capability": "jot",
    "parameters": {"text": "as proposed"},
    "summary": "write it down",
    "irreversibility": "low",
    "regret_potential": "low",
    "risk_amplifier": False,
}
DECLARED = {
    "idempotent": True,
    "irreversibility": "low",
    "regret_potential": "low",
    "risk_amplifier": False,
    "requires_post_review": True,
}
STARTED: Step = ("inference_started", {})
FAILED: Step = ("inference_failed", {"code": "invalid_output", "detail": "it said nothing"})
CONFIRMED: Step = ("confirmed", {})


def proposed(payload: Mapping[str, Any], **more: Any) -> Step:
    """Return the trigger of a model that proposes this."""
    return ("inference_done", {"proposal": {"payload": payload, "confidence": 0.1}, **more})


INTENT = [STARTED, proposed({"intent": "to have paper"})]
CONTEXT = [*INTENT, CONFIRMED, STARTED, proposed({"item_ids": []})]
CONSENT = [*CONTEXT, CONFIRMED, STARTED, proposed(ACTION, declared=DECLARED)]
ROUTES: Mapping[str, list[Step]] = {
    "awaiting_inference": [],
    "awaiting_intent_confirmation": INTENT,
    "awaiting_intent_clarification": [STARTED, FAILED],
    "awaiting_context_confirmation": CONTEXT,
    "awaiting_context_clarification": [*INTENT, CONFIRMED, STARTED, FAILED],
    "awaiting_action_clarification": [*CONTEXT, CONFIRMED, STARTED, FAILED],
    "awaiting_confirmation": CONSENT,
    "executing": [*CONSENT, ("execute", {})],
    "awaiting_review": [*CONSENT, ("execute", {}), ("execution_done", {"result": "written"})],
    "awaiting_redirect": [*CONSENT, ("execute", {}), ("execution_failed", {"detail": "no ink"})],
    "done_cleanup_unsuccessful": [
        *INTENT,
        ("cleanup_requested", {}),
        ("cleanup_failed", {"detail": "it is nailed to the floor"}),
    ],
}
WAITS = tuple(name for name in ROUTES if name.startswith("awaiting_"))[1:]


def matter(title: str = "Paper", **more: Any) -> dict[str, Any]:
    """Return a thread that asks a person at every gate."""
    return {"inciting": {"source": "test", "title": title}, "policy": "hands_off", **more}


def bring(client: Client, record_id: str, state: str, **more: Any) -> Record:
    """Submit a thread and fire what brings it to a state."""
    client.submit(matter(**more), machine="thread", id=record_id)
    for trigger, payload in ROUTES[state]:
        step(client, record_id, trigger, payload)
    record = client.show(record_id)
    assert record.state == state
    return record


def step(
    client: Client, record_id: str, trigger: str, payload: Mapping[str, Any], *, op_id: str = ""
) -> None:
    """Fire a trigger with the warrant of whoever would fire it: an effect's holder, or a person."""
    record, leases = client.show(record_id), client.dispatch.leases
    warrant = Warrant.person(record.entered)
    if trigger.startswith(EFFECTS):
        entry = next(entry for entry in record.entries if entry.kind is Kind.STATE)
        token = entry.token
        if not token:
            effect = client.dispatch.effect(record.machine, entry.name)
            lease = leases.claim(
                entry.key(record.id), effect, nonce=uuid4().hex[:8], holder="test", schema=1
            )
            assert isinstance(lease, Lease)
            token = lease.token
        warrant = Warrant.token(entry.suffix, token)
    call = Call(Cause("tester"), op_id or uuid4().hex, warrant)
    client.dispatch.fire(record_id, trigger, payload, call)


def client_of(store_url: str, prefix: str, **more: Any) -> Client:
    """Return a client on a prefix of its own; no worker serves it."""
    settings = Settings(
        store_url=store_url,
        prefix=prefix,
        namespace=prefix,
        capabilities="tests.end_to_end.threads.capabilities",
        **more,
    )
    return Client(settings, actor="tester")
