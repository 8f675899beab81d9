"""Writes records: the scripts that load, create, commit, note, pause, resume and retry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from interlock.kernel.amounts import summed
from interlock.kernel.decision import Decision
from interlock.kernel.effect import NOTIFICATION, Kind
from interlock.kernel.errors import UnknownRecordError
from interlock.kernel.event import Cause
from interlock.kernel.machine import Machine
from interlock.kernel.moving import Move
from interlock.kernel.record import Record, RecordId, parent_of
from interlock.kernel.store import codec
from interlock.kernel.store.children import children_plan
from interlock.kernel.store.commands import (
    NOTIFICATION_ENTRY,
    Answer,
    EffectMessage,
    InitialLease,
    Limits,
    Loaded,
    NoteDraft,
    Render,
    Warrant,
    advance_message,
    bounds_plan,
    effect_messages,
    lease_plan,
    machine_plan,
    owes_plan,
    parent_plan,
    presented,
    rendered_messages,
    shares_plan,
    timers_plan,
)
from interlock.kernel.store.decided import (
    commit_keys,
    create_keys,
    events_plan,
    hops_plan,
    move_keys,
    records_above,
)
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call
from interlock.kernel.store.subscriptions import Subscriber
from interlock.kernel.store.titles import retitle_plan, title_plan
from interlock.kernel.table import UNBOUND, Bounds, Owed


class Store:
    """The scripts that write records, over one client. A call may be repeated with its op-id."""

    def __init__(self, client: Client, keys: Keys, limits: Limits) -> None:
        self.client, self.keys, self.limits = client, keys, limits

    def load(self, record_id: str, op_id: str = "", reads: Sequence[str] = ()) -> Loaded:
        """Read a record, the outcome of an op-id, and the records that it reads as facts."""
        named = self.keys.of(record_id, facts=[*map(self.keys.record, reads)])
        status, known, record, counters, read = call(self.client, "load", named, {"op_id": op_id})
        if status == b"missing":
            raise UnknownRecordError(record_id)
        facts = {
            other: {"version": int(row[0]), "state": row[1].decode(), "data": json.loads(row[2])}
            for other, row in zip(reads, read, strict=True)
            if row[0] is not None
        }
        return Loaded(codec.record_of(record_id, record, counters), known.decode(), facts)

    def create(
        self,
        machine: Machine,
        decision: Decision,
        *,
        digest: str,
        nonce: str,
        cause: Cause,
        render: Render,
        countdown: str = "",
        bounds: Bounds = UNBOUND,
        initial_lease: InitialLease | None = None,
    ) -> Answer:
        """Create a record. `countdown` is the one of its parent that it joins."""
        record = decision.after
        above = records_above(machine, record, countdown)
        owed = effect_messages(record, nonce, decision.owes, initial_lease)
        queues, messages = rendered_messages(owed, render)
        more = {"above_keys": [*map(self.keys.record, above)], "message_queues": queues}
        named = create_keys(self.keys, machine, decision, countdown, **more)
        plan: dict[str, Any] = {
            "id": record.id,
            "state": record.state,
            "schema": machine.schema,
            "priority": record.priority,
            "digest": digest,
            "nonce": nonce,
            "countdown": countdown,
            **title_plan(record),
            "waits": decision.waits,
            "needs_parent": bool(above) and machine.placement.needs_parent,
            "above": [part for pair in above.items() for part in pair],
            "timers": timers_plan(decision.timers),
            "messages": messages,
            "poll_ms": self.limits.poll_ms,
            **hops_plan(machine, decision, cause, nonce, ({},) * len(decision.hops)),
            **owes_plan(machine, record.state, decision.owes),
        }
        plan |= bounds_plan(bounds) | machine_plan(machine) | shares_plan(decision.shares)
        plan |= lease_plan(initial_lease, machine, record.state, decision.owes, is_new=True)
        plan |= children_plan(decision)
        reply = call(self.client, "create", named, plan)
        status, version, at_ms, *parent_machine = reply
        if status in (b"held", b"below"):
            return Answer(status.decode(), detail=version.decode())
        publish = owed if status == b"created" and not messages else ()
        detail = b"".join(parent_machine).decode()
        return Answer(status.decode(), int(version), int(at_ms), publish, detail)

    def commit(
        self,
        machine: Machine,
        decision: Decision,
        *,
        op_id: str,
        digest: str,
        warrant: Warrant,
        cause: Cause,
        deltas: Sequence[Mapping[str, int]],
        render: Render,
        initial_lease: InitialLease | None = None,
    ) -> Answer:
        """Commit a decision, or nothing; `initial_lease` leases what the entered state owes."""
        before, after, keys = decision.before, decision.after, self.keys
        counted = self._counted(decision, nonce := codec.nonce_of(op_id))
        owed = effect_messages(after, nonce, decision.owes, initial_lease)
        messages_due, parent_keys = owed, list[str]()
        if counted:
            parent, joined, message = counted
            counts = keys.members(parent, joined), keys.tally(parent, joined)
            parent_keys = [keys.record(parent), *counts]
            messages_due = (*owed, message)
        queues, messages = rendered_messages(messages_due, render)
        more = {"parent_keys": parent_keys, "message_queues": queues}
        named = commit_keys(keys, machine, decision, **more)
        plan = {
            "id": after.id,
            "op_id": op_id,
            "digest": digest,
            "warrant": [warrant.kind, *warrant.proof],
            "version": str(before.version),
            "mode": str(decision.mode),
            "trigger": decision.trigger,
            "state": after.state,
            **hops_plan(machine, decision, cause, op_id, deltas),
            "ends": decision.ends,
            "root": not after.counted,
            "waits": decision.waits,
            "interrupts": decision.interrupts,
            "asks_anew": decision.asks_anew,
            "nonce": nonce,
            "mirror": machine.mirror.name if machine.mirror else "",
            "notification": NOTIFICATION_ENTRY if decision.ends else "",
            "fires_exhausted": machine.exhausts(after.state),
            **owes_plan(machine, after.state, decision.owes),
            "messages": messages,
            "timers": timers_plan(decision.timers),
            "fact_versions": [str(fact["version"]) for fact in decision.facts.values()],
            "deltas": summed(deltas),
            "poll_ms": self.limits.poll_ms,
            "window_ms": self.limits.op_window_ms,
        }
        if counted:
            plan["parent"] = parent_plan(*counted[:2], nonce=nonce, limits=self.limits)
        plan |= bounds_plan(decision.bounds) | retitle_plan(before, after) | machine_plan(machine)
        plan |= shares_plan(decision.shares) | children_plan(decision)
        plan |= lease_plan(initial_lease, machine, after.state, decision.owes)
        plan |= {"data": b""} if after.data is before.data else {}
        reply = call(self.client, "commit", named, plan)
        status, version, at_ms, paused, advance, *notified = (part.decode() for part in reply[:6])
        publish: tuple[EffectMessage, ...] = ()
        if status == "committed" and not messages:
            publish = () if paused else owed
            publish += (counted[2],) if counted and advance else ()
        if any(notified):  # known by the commit alone
            publish += (self._message(after, notified[0], NOTIFICATION.name),)
        detail = "" if status == "committed" else advance
        return Answer(status, int(version), int(at_ms), publish, detail, (*reply[6:],))

    def move(self, machine: Machine, move: Move, *, token: str, cause: Cause) -> Answer:
        """Move a record to another version of its table, or change nothing.

        `token` is that of the effect of its state, if the caller holds it.
        """
        decision = move.decision
        before, after = decision.before, decision.after
        plan = {
            "id": after.id,
            "version": str(before.version),
            "state": after.state,
            "schema": str(after.schema),
            "token": presented(token),
            "renames": {suffix: asdict(renamed) for suffix, renamed in move.renames.items()},
            **events_plan(machine, decision, cause, "", ({},)),
            **machine_plan(machine),
            **retitle_plan(before, after),
        }
        status, version = call(self.client, "move", move_keys(self.keys, machine, decision), plan)
        return Answer(status.decode(), detail=version.decode())

    def note(
        self, record: Record, draft: NoteDraft, *, op_id: str, warrant: Warrant, render: Render
    ) -> Answer:
        """Write a note into a record's log. Without an op-id a repeat writes it twice."""
        nonce = codec.nonce_of(op_id)
        owes = tuple(Owed(effect, Kind.TRANSITION) for effect in draft.owes)
        detail = dict(draft.detail) | ({"deltas": dict(draft.deltas)} if draft.deltas else {})
        written = codec.encode(detail, "the note")
        owed = effect_messages(record, nonce, owes)
        queues, messages = rendered_messages(owed, render)
        plan = {
            "id": record.id,
            "machine": record.machine,
            "op_id": op_id,
            "digest": codec.digest(draft.kind, written),
            "warrant": [warrant.kind, *warrant.proof],
            "kind": draft.kind,
            "nonce": nonce,
            "detail": written,
            "deltas": dict(draft.deltas),
            "timers": [
                {"name": n, "delay_ms": ms, "fired": fired} for n, ms, fired in draft.timers
            ],
            "effects": [codec.new_entry(each, fires=False) for each in owes],
            "messages": messages,
            "poll_ms": self.limits.poll_ms,
            "window_ms": self.limits.op_window_ms,
        }
        if spender := draft.spender:
            plan["spender"] = [spender.suffix, presented(spender.token), spender.has_ended]
        named = self.keys.of(record.id, chain=self.keys.chain(record.id), message_queues=queues)
        reply = call(self.client, "note", named, plan)
        status, version, _ = (part.decode() for part in reply)
        if status == "missing":
            raise UnknownRecordError(record.id)
        publish = () if messages or status != "noted" else owed
        return Answer(status, int(version), owed=publish)

    def flag(
        self,
        name: str,
        record: Record,
        *,
        op_id: str,
        cause: Cause,
        proposal: str = "",
        attempts_max: Mapping[str, int] = MappingProxyType({}),
    ) -> Answer:
        """Pause, resume or retry a record, as a person asked. Its version stays the same.

        `proposal` is the one that the person saw, who lets effects try again. Each of them may be
        tried `attempts_max` times, by its name; one that is not there keeps the number it has.
        """
        codes = {"codes": list(cause.codes)} if cause.codes else {}
        who = {"actor": cause.actor, "reason": cause.reason, **codes}
        plan = {
            "id": record.id,
            "op_id": op_id,
            "digest": codec.digest(name, proposal),
            "detail": codec.encode(who, "the note"),
            "window_ms": self.limits.op_window_ms,
        }
        if name == "retry":
            plan |= {"proposal": proposal, "attempts_max": dict(attempts_max)}
        named = self.keys.of(record.id)
        status, *owed = (part.decode() for part in call(self.client, name, named, plan))
        pairs = zip(owed[::2], owed[1::2], strict=True)
        messages = tuple(self._message(record, suffix, effect) for suffix, effect in pairs)
        return Answer(status, owed=messages)

    def leave_countdown(
        self, parent: Subscriber, member: str, outcome: str, render: Render
    ) -> Answer:
        """Take a member that has ended out of a countdown. It may be in any partition."""
        keys, countdown = self.keys, parent.countdown
        nonce = codec.nonce_of(f"depart:{member}")
        message = advance_message(parent.id, parent.machine, countdown, nonce, parent.priority)
        queues, messages = rendered_messages((message,), render)
        plan = {
            "parent": parent_plan(parent.id, countdown, nonce=nonce, limits=self.limits),
            "member": member,
            "outcome": outcome,
            "messages": messages,
        }
        named = keys.of(
            parent.id,
            members=keys.members(parent.id, countdown),
            tally=keys.tally(parent.id, countdown),
            message_queues=queues,
        )
        advance = call(self.client, "leave_countdown", named, plan)[0].decode()
        return Answer("departed", owed=(message,) if advance and not messages else ())

    def _message(self, record: Record, suffix: str, effect: str) -> EffectMessage:
        return EffectMessage(f"{record.id}:{suffix}", record.machine, effect, record.priority)

    def _counted(
        self, decision: Decision, nonce: str
    ) -> tuple[RecordId, str, EffectMessage] | None:
        record, parent = decision.before, parent_of(decision.before.id)
        leaves = decision.ends or decision.counts_as_ended
        if parent is None or not record.counted or not leaves:
            return None
        machine = record.parent_machine or record.machine
        message = advance_message(parent, machine, record.counted, nonce, record.priority)
        return parent, record.counted, message
