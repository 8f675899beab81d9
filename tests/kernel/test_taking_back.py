"""A record is taken back to the name that the present table has changed, and to no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from interlock import Data, Workflow
from interlock.kernel.event import MOVED, Cause, Event
from interlock.kernel.machine import Machine
from interlock.kernel.moving import move_of
from interlock.kernel.outline import outline_of
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.taking_back import taken_back


class Refund(Data):
    order: str


def asking(*names: str, renamed: dict[str, str] | None = None, **options: Any) -> Machine:
    refund: Workflow[Refund] = Workflow(
        "refund", Refund, start=names[0], renamed=renamed, **options
    )
    for name, then in zip(names, (*names[1:], "done"), strict=True):
        refund.ask(name, "Refund order {order}?", approve=then, stop="done")
    refund.ends(done=True)
    return refund.machine


def test_a_name_that_an_earlier_version_has_changed_stays() -> None:
    record = Record(RecordId("r-1"), "refund", "approval", Version(2), {"order": "o-1"})
    moved = Event(record.id, Version(2), MOVED, "asking", "approval", {}, Cause("move"))
    renaming = asking("approval", renamed={"asking": "approval"})
    before = outline_of(asking("approval", "asking"))  # that name is one of another state again

    taken = taken_back(renaming, outline_of(asking("asking")), record, moved)

    assert taken
    assert taken.decision.after.state == "asking"
    assert taken_back(asking("approval", "asking", "second"), before, record, moved) is None


def test_the_title_is_that_from_before_the_move() -> None:
    old = asking("asking", title="Order {order}")
    new = asking("approval", renamed={"asking": "approval"}, title="Refund of {order}")
    record = Record(RecordId("r-1"), "refund", "asking", Version(1), {"order": "o-1"})
    record = replace(record, title=old.titled(record.data))
    move = move_of(new, record)
    assert move
    after, payload = move.decision.after, move.decision.payload
    moved = Event(record.id, after.version, MOVED, "asking", "approval", payload, Cause("move"))

    taken = taken_back(new, outline_of(old), after, moved)

    assert after.title == "Refund of o-1"
    assert taken
    assert taken.decision.after.title == "Order o-1"
