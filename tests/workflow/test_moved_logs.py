"""The logs of records that several versions of a workflow have led still prove their records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock import CardAnswer, Data, Workflow, days
from interlock.kernel.errors import StoreError
from interlock.kernel.event import Event
from interlock.kernel.outline import outline_of
from interlock.kernel.restoration import LoggedRecord
from interlock.kernel.store.fold import fold, follow
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.verify import verify_all
from tests.workflow.at_work import AtWork, registered


class Old(Data):
    order: str
    note: str = ""


class New(Data):
    number: str
    remark: str = ""


class Noted(CardAnswer):
    note: str


class Remarked(CardAnswer):
    remark: str


def renumbered(old: Old) -> New:
    return New(number=old.order, remark=old.note)


def old_version() -> Workflow[Old]:
    refund = Workflow("refund", Old, expires=days(3))
    refund.ask("asking", "Refund {order}?", approve=("sure", Noted), stop="done")
    refund.ask("sure", "Really?", approve="done")
    refund.ends(done=True)
    return refund


def new_version() -> Workflow[New]:
    renamed = {"asking": "approval", "sure": "confirmation"}
    refund = Workflow("refund", New, expires=days(3), renamed=renamed, schema=2, migrate=renumbered)
    refund.ask("approval", "Pay {number}?", approve=("confirmation", Remarked), stop="done")
    refund.ask("confirmation", "Really?", approve="done")
    refund.ends(done=True)
    return refund


def test_what_two_versions_have_led_is_verified_and_restored(
    server: EmbeddedServer, prefix: str
) -> None:
    old, new = old_version(), new_version()
    ids = ("r-waits", "r-answered", "r-moved", "r-both", "r-ended")
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        worker.client.dispatch.tables.keep("refund", old.machine.digest, outline_of(old.machine))
        for one in ids:
            worker.client.submit({"order": one}, machine="refund", id=one)
        for one in ("r-answered", "r-both"):
            worker.answer(one, "approve", note="by the old version")
        worker.answer("r-ended", "stop")
        assert worker.work("r-ended").state == "done"
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        dispatch = worker.client.dispatch
        move = dispatch.lifecycle.mover.move
        assert (move("r-moved").state, move("r-both").state) == ("approval", "confirmation")
        assert move("r-both").data["remark"] == "by the old version"
        worker.answer("r-both", "approve")
        assert worker.work("r-both").state == "done"

        report = verify_all(dispatch, None)
        assert (report["records"], report["faults"]) == (len(ids), [])

        # What only the functions of the old version have led to is known by its hash alone.
        waiting = worker.client.history("r-answered")
        assert not follow(new.machine, waiting).knows_data
        with pytest.raises(StoreError, match="an older version of the table has led to its data"):
            fold(new.machine, waiting)
        lines = worker.client.history("r-both")
        birth = dispatch.views.creation_digests(["r-both"])["r-both"]
        logged = LoggedRecord("r-both", "refund", birth, tuple(lines), schema=2)
        restored, there = logged.recomputed(new.machine), worker.client.show("r-both")
        assert (restored.state, restored.data) == (there.state, there.data)
        assert (restored.since_ms, restored.title) == (there.since_ms, there.title)


def test_a_log_of_two_versions_that_was_tampered_with_is_found(
    server: EmbeddedServer, prefix: str
) -> None:
    old, new = old_version(), new_version()
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        worker.client.submit({"order": "o-1"}, machine="refund", id="r-1")
        worker.answer("r-1", "approve", note="by the old version")
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        dispatch, machine = worker.client.dispatch, new.machine
        dispatch.tables.keep("refund", old.machine.digest, outline_of(old.machine))
        [created, *_, answered] = worker.client.history("r-1")
        dispatch.lifecycle.mover.move("r-1")
        moved = worker.client.history("r-1")[-1]
        assert isinstance(created, Event)
        assert isinstance(answered, Event)
        assert isinstance(moved, Event)

        def led(*lines: Event) -> str:
            follow(machine, lines, lambda digest: dispatch.tables.outline("refund", digest))
            return "followed"

        assert led(created, answered, moved) == "followed"
        changed = replace(moved, payload={**moved.payload, "data": {"number": "o-2"}})
        with pytest.raises(StoreError, match="version 3: the data does not follow"):
            led(created, answered, changed)
        with pytest.raises(StoreError, match="has no row from asking by asking_approve to done"):
            led(created, replace(answered, target="done"), replace(moved, source="done"))
        with pytest.raises(StoreError, match="from asking does not follow version 2 in sure"):
            led(created, answered, replace(moved, source="asking"))
        renamed = replace(created, payload={"order": "o-2"})
        with pytest.raises(StoreError, match="version 1: the data does not follow"):
            led(renamed, answered)

        key = dispatch.keys.record("r-1")
        dispatch.client.hset(key, "data", b'{"number":"o-2"}')
        (fault,) = verify_all(dispatch, ["r-1"])["faults"]
        assert "or their data differ" in fault
