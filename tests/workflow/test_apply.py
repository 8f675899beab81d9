"""`interlock apply` moves all records of an older version at once, or says why before it begins."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import pytest

from interlock import Data, Workflow, days
from interlock.kernel.errors import StrandedError
from interlock.kernel.event import Event, Note
from interlock.kernel.outline import outline_of
from interlock.kernel.record import partition_of
from interlock.kernel.store.tables import Process
from interlock.kernel.store.views import Views
from interlock.kernel.table_change import Outlook
from interlock.workers.engine.sweeps import moves
from interlock.workers.engine.table_check import check_tables
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.apply import ApplyRefusedError, MovesLock, apply, plan
from interlock.workers.ops.plan import is_refused, plan_of, plan_page
from interlock.workers.ops.table_problems import problems_of_tables
from interlock.workers.ops.taking_back import plan_back, take_back
from interlock.workers.ops.verify import verify_all
from tests.sweeping import sweeping
from tests.workflow.at_work import AtWork, registered

IDS = tuple(f"r-{n}" for n in range(6))


class Old(Data):
    order: str


class New(Data):
    number: str


def renumbered(old: Old) -> New:
    if old.order == "bad":
        raise ValueError("bad is no number")
    return New(number=old.order)


def old_version() -> Workflow[Old]:
    refund = Workflow("refund", Old, expires=days(3))
    refund.ask("asking", "Refund {order}?", approve="pay", stop="done")

    @refund.step
    def pay(r: Old) -> Literal["done"]:
        raise AssertionError(f"{r.order} is paid by the old step")

    refund.ends(done=True)
    return refund


def new_version(*, pay: str = "payment", title: str = "") -> Workflow[New]:
    past: dict[str, Any] = {"renamed": {"asking": "approval", "pay": pay}, "schema": 2}
    refund = Workflow("refund", New, expires=days(3), title=title, migrate=renumbered, **past)
    refund.ask("approval", "Pay {number}?", approve=pay, stop="done")

    @refund.step(name=pay)
    def payment(r: New) -> Literal["done"]:
        del r
        return "done"

    refund.ends(done=True)
    return refund


def open_refunds(server: EmbeddedServer, prefix: str, *orders: str) -> Workflow[Old]:
    """Create records in the old version, of which the first is to be paid."""
    old = old_version()
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        tables = worker.client.dispatch.tables
        tables.keep("refund", old.machine.digest, outline_of(old.machine))
        tables.apply("refund", old.machine.digest, expected="", by="old")
        for one, order in zip(IDS, orders or IDS, strict=False):
            worker.client.submit({"order": order}, machine="refund", id=one)
        worker.answer(IDS[0], "approve")
    return old


def stored_states(worker: AtWork) -> list[str]:
    dispatch = worker.client.dispatch
    stored = Views(dispatch.client, dispatch.keys).records(IDS)
    return [stored[one].state for one in IDS]


def test_all_records_are_moved_and_once(server: EmbeddedServer, prefix: str) -> None:
    open_refunds(server, prefix)
    new = new_version()
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        dispatch = worker.client.dispatch
        assert plan(dispatch, ["refund"]) == {"refund": {"asking": 5, "pay": 1}}
        assert stored_states(worker) == ["pay", *["asking"] * 5]

        assert apply(dispatch, actor="ann", names=["refund"]) == {"refund": {"moved": 6}}

        assert stored_states(worker) == ["payment", *["approval"] * 5]
        assert dispatch.tables.applied()["refund"].digest == new.machine.digest
        assert apply(dispatch, actor="ann", names=["refund"]) == {}
        (moved,) = [
            line
            for line in worker.client.history(IDS[0])
            if isinstance(line, Event) and line.trigger == "moved"
        ]
        assert (moved.cause.actor, moved.cause.reason) == ("ann", "interlock apply")
        assert worker.work(IDS[0]).state == "done"
        assert verify_all(dispatch, None)["faults"] == []


def test_a_run_that_ends_in_the_middle_is_repeated(server: EmbeddedServer, prefix: str) -> None:
    open_refunds(server, prefix)
    new = new_version()
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        dispatch = worker.client.dispatch

        class KilledError(Exception):
            pass

        def killed(seen: Mapping[str, Any]) -> None:
            raise KilledError(seen)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("interlock.workers.ops.apply.BATCH", 1)
            with pytest.raises(KilledError):
                apply(dispatch, actor="ann", names=["refund"], progress=killed)
        left = [state for state in stored_states(worker) if state in ("asking", "pay")]
        assert len(left) == 5
        assert apply(dispatch, actor="ann", names=["refund"]) == {"refund": {"moved": 5}}
        assert verify_all(dispatch, None)["faults"] == []


def test_a_run_whose_lock_another_one_has_taken_moves_no_further_batch(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_refunds(server, prefix)
    new = new_version()
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        dispatch = worker.client.dispatch

        def taken(seen: Mapping[str, Any]) -> None:
            assert seen == {"refund": {"moved": 1}}
            dispatch.client.delete(dispatch.keys.moves_lock())  # its time was over
            MovesLock(dispatch.tables, "bob").renew()

        monkeypatch.setattr("interlock.workers.ops.apply.BATCH", 1)
        with pytest.raises(ApplyRefusedError, match="records are being moved by bob"):
            apply(dispatch, actor="ann", progress=taken)
        assert len([one for one in stored_states(worker) if one in ("asking", "pay")]) == 5


def test_a_record_that_is_newer_than_this_code_is_not_moved(
    server: EmbeddedServer, prefix: str
) -> None:
    open_refunds(server, prefix)
    new = new_version()
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        dispatch = worker.client.dispatch
        dispatch.client.hset(dispatch.keys.record(IDS[1]), "schema", 3)
        done = apply(dispatch, actor="ann")["refund"]
        (why,) = {*done} - {"moved"}
        assert why.startswith("not moved: ")
        assert (done["moved"], done[why]) == (5, 1)
        assert stored_states(worker)[1] == "asking"


def test_nothing_is_changed_where_one_record_cannot_be_moved(
    server: EmbeddedServer, prefix: str
) -> None:
    old = open_refunds(server, prefix, "o-1", "o-2", "bad", "bad")
    new = new_version()
    with registered(new):
        dispatch = AtWork(server.url, prefix, new).client.dispatch
        raised = "the data of r-[23] cannot be made newer: .*bad is no number .*: repair that"
        for refused in (partial(apply, dispatch, actor="ann"), partial(check_tables, dispatch)):
            with pytest.raises(StrandedError, match=f"^2 records of refund .*{raised}"):
                refused()
        (part,) = plan_of(dispatch)
        first, newer = part["changes"][0], part["changes"][-1]
        assert (first["verdict"], first["records"]) == (Outlook.STRANDED, 2)
        assert (newer["what"], newer["records"]) == ("the data are of schema 2 now", 2)
        assert is_refused([part])
        assert dispatch.tables.applied()["refund"].digest == old.machine.digest
        assert dispatch.views.record("r-0").was == "pay"
        other = MovesLock(dispatch.tables, "bob")
        other.renew()
        with pytest.raises(ApplyRefusedError, match=r"being moved by bob \(process"):
            apply(dispatch, actor="ann", names=["refund"])
        other.free()


def test_older_code_and_code_that_strands_records_are_refused(
    server: EmbeddedServer, prefix: str
) -> None:
    old = open_refunds(server, prefix)
    new = new_version()
    with registered(new):
        apply(AtWork(server.url, prefix, new).client.dispatch, actor="ann", names=["refund"])
    with registered(old):
        dispatch = AtWork(server.url, prefix, old).client.dispatch
        with pytest.raises(ApplyRefusedError, match="schema 2 since ann has applied that"):
            apply(dispatch, actor="ann", names=["refund"])
    other = new_version(pay="transfer")
    with registered(other):
        dispatch = AtWork(server.url, prefix, other).client.dispatch
        with pytest.raises(StrandedError, match="1 record is in refund/payment"):
            apply(dispatch, actor="ann", names=["refund"])
        assert dispatch.tables.applied()["refund"].digest == new.machine.digest


@pytest.mark.parametrize("names", [("asking", "approval"), ("asking", "approval", "question")])
def test_a_table_of_any_time_before_is_refused_while_processes_work_by_a_newer_one(
    server: EmbeddedServer, prefix: str, names: tuple[str, ...]
) -> None:
    def version(asking: str) -> Workflow[Old]:
        refund = Workflow("refund", Old)
        refund.ask(asking, "Refund {order}?", approve="done", stop="done")
        refund.ends(done=True)
        return refund

    for latest in map(version, names):
        with registered(latest):
            dispatch = AtWork(server.url, prefix, latest).client.dispatch
            apply(dispatch, actor="ann", names=["refund"])
    worker = Process("w1", "worker", "0.1.0", {"refund": latest.machine.digest})
    dispatch.tables.announce(worker)
    oldest = version(names[0])
    with registered(oldest):
        dispatch = AtWork(server.url, prefix, oldest).client.dispatch
        with pytest.raises(ApplyRefusedError, match="and w1 work by it: this code is older than"):
            apply(dispatch, actor="ann", names=["refund"])
        (part,) = found = plan_of(dispatch)
        assert is_refused(found)
        assert "and w1 work by it: this code is older" in part["older"]
        assert part["older"] in " ".join(str(each.text).strip() for each in plan_page(found))
        dispatch.tables.withdraw("w1")
        assert not any(part["older"] for part in plan_of(dispatch))
        assert apply(dispatch, actor="ann", names=["refund"]) == {}


def test_records_are_taken_back_until_they_have_gone_on(
    server: EmbeddedServer, prefix: str
) -> None:
    old, new = open_refunds(server, prefix), new_version(title="Number {number}")
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        dispatch = worker.client.dispatch
        with pytest.raises(ApplyRefusedError, match="no table that was applied last"):
            take_back(dispatch, actor="ann", names=["refund"])
        key = worker.entries(IDS[0])[0].key(IDS[0])
        apply(dispatch, actor="ann", names=["refund"])
        worker.answer(IDS[1], "approve")
        with pytest.raises(ApplyRefusedError, match="r-1 has gone on with data of schema 2"):
            take_back(dispatch, actor="ann", names=["refund"])
        assert stored_states(worker) == ["payment", "payment", *["approval"] * 4]
        assert worker.work(IDS[1]).state == "done"

        assert plan_back(dispatch) == {"refund": {"payment": 1, "approval": 4}}
        assert take_back(dispatch, actor="ann") == {"refund": {"taken back": 5}}

        assert stored_states(worker) == ["pay", "done", *["asking"] * 4]
        stored = Views(dispatch.client, dispatch.keys).records(IDS)
        assert [stored[one].title for one in IDS] == ["", f"Number {IDS[1]}", *[""] * 4]
        assert verify_all(dispatch, None)["faults"] == []
        assert dispatch.tables.applied()["refund"].digest == old.machine.digest
        assert not any(moves.run(sweeping(dispatch), at) for at in moves.due(sweeping(dispatch)))
        assert take_back(dispatch, actor="ann") == {}
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        assert worker.client.show(IDS[2]).data == {"order": IDS[2]}
        (entry,) = worker.entries(IDS[0])
        assert (entry.name, entry.key(IDS[0])) == ("pay", key)
        assert worker.answer(IDS[2], "stop").state == "done"
    with registered(new):
        dispatch = AtWork(server.url, prefix, new).client.dispatch
        assert verify_all(dispatch, None)["faults"] == []
        assert apply(dispatch, actor="ann", names=["refund"]) == {"refund": {"moved": 4}}
        assert verify_all(dispatch, None)["faults"] == []


def test_the_sweep_moves_records_where_its_table_is_applied(
    server: EmbeddedServer, prefix: str
) -> None:
    open_refunds(server, prefix)
    new = new_version()
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        dispatch = worker.client.dispatch
        assert moves.due(sweeping(dispatch)) == []
        before = dispatch.tables.applied()["refund"].digest
        dispatch.tables.keep("refund", new.machine.digest, outline_of(new.machine))
        dispatch.tables.apply("refund", new.machine.digest, expected=before, by="w1")
        assert set(moves.due(sweeping(dispatch))) == {partition_of(one) for one in IDS}
        seen = sum(
            (moves.run(sweeping(dispatch), at) for at in moves.due(sweeping(dispatch))),
            start=Counter(),
        )
        assert seen == {"moved": 6}
        assert stored_states(worker) == ["payment", *["approval"] * 5]
        assert not sum(moves.run(sweeping(dispatch), at).total() for at in range(64))


def test_data_that_cannot_be_made_newer_are_told_once_and_by_doctor(
    server: EmbeddedServer, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    old = open_refunds(server, prefix, "o-1", "bad", "bad")
    new = new_version()
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        dispatch = worker.client.dispatch
        # The bad ones have come since the table was applied, from an old program.
        digest, before = new.machine.digest, old.machine.digest
        dispatch.tables.keep("refund", digest, outline_of(new.machine))
        dispatch.tables.apply("refund", digest, expected=before, by="w1")
        refused = "data of 2 records cannot be made newer: r-.* repair that function"
        with pytest.raises(ApplyRefusedError, match=refused):
            apply(dispatch, actor="ann")
        for expected in ({"moved": 1, "failed": 2}, {"failed": 2}):
            seen = sum(
                (moves.run(sweeping(dispatch), at) for at in moves.due(sweeping(dispatch))),
                start=Counter(),
            )
            assert seen == expected

        assert caplog.text.count(f"{IDS[1]} is not moved: ") == 1
        notes = [Views(dispatch.client, dispatch.keys).history(one)[-1] for one in IDS[1:3]]
        lines = [note.detail for note in notes if isinstance(note, Note)]
        assert [line["trigger"] for line in lines] == ["moved", "moved"]
        (fault,) = {line["detail"] for line in lines}
        assert "bad is no number" in fault
        said = next(each for each in problems_of_tables(dispatch) if fault in each)
        assert re.match("the data of r-[12] and 1 more cannot be made newer: ", said)
