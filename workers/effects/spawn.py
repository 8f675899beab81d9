"""Bears the children that a record has listed, each once; it lists none itself."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kernel.autonomy import parse
from kernel.errors import CallError, ClosedParentError, IdTakenError
from kernel.event import Cause
from kernel.store.plan import Call
from kernel.table import Data
from workers.work import Work


def spawn(work: Work) -> None:
    """Create every child of the list. A repetition finds those that exist and goes on."""
    record = work.record
    generation = work.lease.suffix.partition(".")[0]
    countdown = f"{record.spawning(work.lease.suffix)}:{generation}"
    cause = Cause("spawn", f"part of {record.id}")
    begins = work.machine.begins
    for number, child in enumerate(record.data["children"], start=1):
        work.go_on()
        child_id = f"{record.id}/{generation}.{number}"
        payload, cap = birth_of(record.data, child)
        # An earlier attempt, perhaps of another version of this program, may have borne it.
        with suppress(IdTakenError):
            try:
                work.dispatch.create(
                    record.machine,
                    child_id,
                    payload,
                    Call(cause),
                    priority=record.priority,
                    countdown=countdown,
                    cap=cap,
                )
            except ClosedParentError:
                return  # the parent ended, or the countdown is over: nothing more is to be born
        if begins:
            # Its own kickoff, a person or an earlier attempt may have begun it, or even ended it.
            with suppress(CallError):
                work.dispatch.fire(child_id, begins, {}, Call(cause, op_id=f"begin:{child_id}"))


def birth_of(parent: Data, child: Data) -> tuple[dict[str, Any], int | None]:
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
