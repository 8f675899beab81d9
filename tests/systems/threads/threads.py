"""Brings threads to each state that waits for a person, by the triggers that workers fire."""

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
from interlock.workers.engine import store_client
from interlock.workers.engine.dispatch import Dispatch
from tests.known_systems import settings_with

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


def proposed(payload: Mapping[str, Any], **fields: Any) -> Step:
    """Return the trigger of a model that proposes a payload."""
    return ("inference_done", {"proposal": {"payload": payload, "confidence": 0.1}, **fields})


INTENT = [STARTED, proposed({"intent": "to have paper"})]
CONTEXT = [*INTENT, CONFIRMED, STARTED, proposed({"item_ids": []})]
CONSENT = [*CONTEXT, CONFIRMED, STARTED, proposed(ACTION, declared=DECLARED)]
STEPS_TO: Mapping[str, list[Step]] = {
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
WAITS = tuple(name for name in STEPS_TO if name.startswith("awaiting_"))[1:]


def thread_payload(title: str = "Paper", **fields: Any) -> dict[str, Any]:
    """Return a thread that asks a person at every gate."""
    return {"inciting": {"source": "test", "title": title}, "policy": "ask_every_step", **fields}


def bring(client: Client, record_id: str, state: str, **fields: Any) -> Record:
    """Submit a thread and fire the triggers that bring it to a state."""
    client.submit(thread_payload(**fields), machine="thread", id=record_id)
    for trigger, payload in STEPS_TO[state]:
        step(client, record_id, trigger, payload)
    record = client.show(record_id)
    assert record.state == state
    return record


def step(
    client: Client, record_id: str, trigger: str, payload: Mapping[str, Any], *, op_id: str = ""
) -> None:
    """Fire a trigger with the warrant of an effect's holder, or of a person."""
    record, leases = client.dispatch.views.record(record_id), client.dispatch.leases
    warrant = Warrant.person(record.entered)
    if trigger.startswith(EFFECTS):
        entry = next(entry for entry in record.entries if entry.kind is Kind.STATE)
        token = entry.token
        if not token:
            effect = client.dispatch.effect(record.machine, entry.name)
            lease = leases.claim(
                entry.key(record.id), effect, nonce=uuid4().hex[:8], holder="test", schema=9
            )
            assert isinstance(lease, Lease)
            token = lease.token
        warrant = Warrant.token(entry.suffix, token)
    call = Call(Cause("tester"), op_id or uuid4().hex, warrant)
    client.dispatch.lifecycle.fire(record_id, trigger, payload, call)


def guarded_client_of(store_url: str, prefix: str) -> Client:
    """Return a client with a connection of its own, on which no more is written after a change."""
    found = client_of(store_url, prefix)
    found.dispatch.client = store_client.open_safe_store(
        store_url, found.dispatch.keys, connections_max=4, patient=False
    )
    return found


def client_of(store_url: str, prefix: str, **fields: Any) -> Client:
    """Return a client with a prefix that no worker serves."""
    known = {"capabilities": "tests.end_to_end.threads.capabilities", **fields}
    settings = settings_with(store_url=store_url, prefix=prefix, namespace=prefix, **known)
    return Client(settings, actor="tester")


def obstruct(client: Client, record_id: str) -> None:
    """Give the only effect of a record back, because a person is in its way."""
    record, dispatch = client.show(record_id), client.dispatch
    (entry,) = record.entries
    effect, key = dispatch.effect(record.machine, entry.name), entry.key(record_id)
    lease = dispatch.leases.claim(key, effect, nonce="n", holder="test", schema=record.schema)
    assert isinstance(lease, Lease)
    dispatch.leases.release(lease, delay_ms=600_000, counted=True, asks=True)


def hold_canary(dispatch: Dispatch, canary_id: str) -> None:
    """Create a canary that waits for a person, as only Interlock can."""
    dispatch.lifecycle.create("canary", canary_id, {"inciting": {}, "hold": True}, Cause("canary"))


def consent(interlock: Client, record_id: str, **action: Any) -> None:
    """Bring a thread to the consent to an action."""
    interlock.submit(thread_payload(), machine="thread", id=record_id)
    for trigger, payload in [
        *CONTEXT,
        CONFIRMED,
        STARTED,
        proposed({**ACTION, **action}, declared=DECLARED),
    ]:
        step(interlock, record_id, trigger, payload)
