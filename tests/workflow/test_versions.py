"""Two versions of a workflow over one store: records and messages of each meet the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
import redis

from interlock import Data, Work, Workflow, days
from interlock.kernel.errors import HeldError
from interlock.kernel.event import Event
from interlock.kernel.outline import outline_of
from interlock.kernel.record import partition_of
from interlock.kernel.store.indexes import SOON_MS
from interlock.kernel.store.leases import Lease, Refused
from interlock.kernel.store.slots import SlotUse
from interlock.workers.engine.celery_app import queue_of
from interlock.workers.engine.effect_slots import check, claim_with_slot
from interlock.workers.engine.other_tables import meant
from interlock.workers.engine.slot_waits import busy_slots
from interlock.workers.engine.sweeps import orphans, stalls
from interlock.workers.engine.table_check import check_tables
from interlock.workers.gateways.server import EmbeddedServer
from tests.end_to_end.engine.test_stranding import due
from tests.sweeping import sweeping
from tests.waiting import until
from tests.workers.engine.running import perform
from tests.workflow.at_work import AtWork, registered


class Refund(Data):
    order: str


def before() -> Workflow[Refund]:
    refund = Workflow("refund", Refund)

    @refund.step
    def pay(r: Refund) -> Literal["done"]:
        raise AssertionError(f"{r.order} is paid by the old step")

    refund.ends(done=True)
    return refund


def after() -> Workflow[Refund]:
    refund = Workflow("refund", Refund, renamed={"pay": "payment"})

    @refund.step
    def payment(r: Refund) -> Literal["done"]:
        del r
        return "done"

    refund.ends(done=True)
    return refund


class Order(Data):
    number: str


def numbered(old: Refund) -> Order:
    return Order(number=old.order)


def asking() -> Workflow[Refund]:
    refund = Workflow("refund", Refund, expires=days(3))
    refund.ask("asking", "Refund {order}?", approve="done", timeout=days(2), on_timeout="done")
    refund.ends(done=True)
    return refund


def approving() -> Workflow[Order]:
    refund = Workflow(
        "refund",
        Order,
        expires=days(3),
        renamed={"asking": "approval"},
        schema=2,
        migrate=numbered,
    )
    refund.ask("approval", "Pay {number}?", approve="pay", timeout=days(2), on_timeout="done")

    @refund.step
    def pay(o: Order) -> Literal["done"]:
        del o
        return "done"

    refund.ends(done=True)
    return refund


def sending(name: str, begun: list[str], **options: Any) -> Workflow[Refund]:
    once = options.pop("once", False)
    refund = Workflow("refund", Refund, **options)

    def note(what: str, work: Work) -> None:
        begun.append(f"{what} {work.key}")

    @refund.step(name=name, once=once)
    def send(r: Refund, work: Work) -> Literal["done"]:
        del r
        work.saved("weight", note, "weigh", work)
        note(name, work)
        if name == "send":
            raise OSError("the other side is away")
        return "done"

    refund.ends(done=True)
    return refund


class Numbered(Order):
    paid: bool = False


def pausing(pause: str, days_of: Mapping[str, int], **options: Any) -> Workflow[Refund]:
    refund = Workflow("refund", Refund, start="pay", **options)

    def pay(r: Refund) -> str:
        return pause if r.order else "done"

    pay.__annotations__["return"] = Literal[pause]
    refund.step(pay)
    refund.wait(pause, until=lambda r: datetime(2100, 1, days_of[r.order], tzinfo=UTC), then="done")
    refund.ends(done=True)
    return refund


def numbering() -> Workflow[Numbered]:
    def migrate(data: dict[str, Any]) -> dict[str, Any]:
        return {"number": f"o-{int(data['order'].removeprefix('o-'))}"}

    refund = Workflow("refund", Numbered, schema=2, migrate=migrate)

    @refund.step
    def pay(n: Numbered) -> Literal["done"]:
        n.paid = True
        return "done"

    refund.ends(done=True)
    return refund


def test_a_message_of_an_unknown_name_is_for_others_while_a_record_owes_that(
    server: EmbeddedServer, prefix: str
) -> None:
    old, new = before(), after()
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        worker.client.submit({"order": "o-1"}, machine="refund", id="r-1")
        key = worker.entries("r-1")[0].key("r-1")
    with registered(old):
        older = AtWork(server.url, prefix, old)

        def meant_by(task: str, *arguments: object) -> str:
            message = SimpleNamespace(payload=(list(arguments), {}, {}))
            return str(meant(older.client.dispatch, task, message))

        assert meant_by("refund.payment", key) == "others"
        assert meant_by("refund.cheque", key) == "past"
        assert meant_by("refund.payment", "r-1:7.0:x") == "past"
        assert meant_by("refund.payment", "r-2:1.0:x") == "nobody"
        assert meant_by("refund.payment", 7) == "nobody"
        assert meant_by("refund.payment") == "nobody"
        assert meant_by("other.payment", key) == "nobody"
        assert meant_by("intake", key) == "nobody"
        older.client.pause("r-1")
        assert meant_by("refund.payment", key) == "past"
        refused = perform(older.runner, old.machine, "pay", old.handlers["pay"], key)
    assert refused == (
        "ignored: not claimed: refund.pay is called payment by another version of its table"
    )


def test_a_message_of_an_older_name_lets_a_sweep_rename_what_is_owed(
    server: EmbeddedServer, prefix: str
) -> None:
    old, new = before(), after()
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        worker.client.submit({"order": "o-1"}, machine="refund", id="r-1")
        key = worker.entries("r-1")[0].key("r-1")
    with registered(new):
        worker = AtWork(server.url, prefix, new, INTERLOCK_POLL_S="3600")

        found = meant(worker.client.dispatch, "refund.pay", SimpleNamespace(payload=([key],)))

        assert (found, due_in_ms(worker, key) <= SOON_MS) == ("past", True)


def due_in_ms(worker: AtWork, member: str, timers: bool = False) -> float:  # noqa: FBT001, FBT002
    """Return in how many ms a sweep polls an effect or a timer."""
    keys = worker.client.dispatch.keys
    index = keys.timers if timers else keys.effects
    key = index(partition_of(member.partition(":")[0]))
    due = worker.client.dispatch.client.zscore(key, member)
    assert due is not None
    return float(due) - worker.client.dispatch.views.now_ms()


def test_a_sweep_publishes_what_only_the_applied_table_has_to_its_queue(
    server: EmbeddedServer, prefix: str
) -> None:
    old, new = before(), after()
    with registered(old):
        older = AtWork(server.url, prefix, old, INTERLOCK_POLL_S="3600")
        check_tables(older.client.dispatch, applied_by="old")
        older.client.submit({"order": "o-1"}, machine="refund", id="r-1")
        assert older.client.dispatch.tables_elsewhere.queue("refund", "payment") is None
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        check_tables(worker.client.dispatch, applied_by="new")
        worker.client.dispatch.lifecycle.mover.move("r-1")
        key = worker.entries("r-1")[0].key("r-1")
        assert due_in_ms(worker, key) <= 0
    with registered(old):
        # Its workers do not know yet that another table is applied.
        assert orphans.run(sweeping(older.client.dispatch), partition_of("r-1")) == Counter(
            refused=1
        )
        assert due_in_ms(older, key) <= SOON_MS

        def is_published() -> bool:
            found = orphans.run(sweeping(older.client.dispatch), partition_of("r-1"))
            return found == Counter(published=1)

        until(is_published, what="an old worker publishes it")
        queue = queue_of(older.client.settings, "refund")
        app = older.client.dispatch.publisher.app
        with app.connection_for_read() as connection, connection.channel() as channel:
            names = []
            while message := channel.basic_get(queue, no_ack=True):
                names.append(message.headers["task"])
        assert names[-1] == "refund.payment"


def test_a_timer_that_only_another_version_knows_is_polled_again_soon(
    server: EmbeddedServer, prefix: str
) -> None:
    old, new = asking(), approving()
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        worker.client.submit({"number": "1"}, machine="refund", id="r-1")
        dispatch = worker.client.dispatch
        due(dispatch, cast(redis.Redis, dispatch.client), "r-1", "timeout")
    with registered(old):
        older = AtWork(server.url, prefix, old, INTERLOCK_POLL_S="3600")
        assert stalls.run(sweeping(older.client.dispatch), partition_of("r-1")) == Counter(
            refused=1
        )
        assert due_in_ms(older, "r-1:timeout", timers=True) <= SOON_MS


def limiting(name: str, **options: Any) -> Workflow[Refund]:
    refund = Workflow("refund", Refund, **options)

    @refund.step(name=name, concurrency=1)
    def send(r: Refund) -> Literal["done"]:
        del r
        return "done"

    refund.ends(done=True)
    return refund


def test_what_waited_for_a_place_waits_for_one_of_the_new_name_alone(
    server: EmbeddedServer, prefix: str
) -> None:
    old, new = limiting("send"), limiting("dispatch", renamed={"send": "dispatch"})
    ids = [f"r-{n}" for n in range(4)]
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        for one in ids:
            worker.client.submit({"order": one}, machine="refund", id=one)
        keys = {one: worker.entries(one)[0].key(one) for one in ids}
        dispatch, effect = worker.client.dispatch, worker.client.dispatch.effect("refund", "send")
        claims = {
            one: partial(
                dispatch.leases.claim, keys[one], effect, nonce=one, holder="old", schema=1
            )
            for one in ids
        }
        needs = {one: claim() for one, claim in claims.items()}
        taken = {
            one: claim_with_slot(dispatch, keys[one], effect, claims[one], refused)
            for one, refused in needs.items()
            if isinstance(refused, Refused)
        }
        lease, used = taken["r-0"]
        assert isinstance(lease, Lease)
        assert used
        assert all(isinstance(taken[one][0], Refused) for one in ids[1:])
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        dispatch = worker.client.dispatch
        for one in ids[1:]:
            dispatch.lifecycle.mover.move(one)
        slots = dispatch.leases.slots

        def swept() -> SlotUse:
            dispatch.client.zadd(
                dispatch.keys.checked_slots(partition_of(used.slots)), {used.slots: 1}
            )
            check(dispatch, used.slots)
            return slots.use([used.slots])[used.slots]

        assert swept() == SlotUse(held=1, waiting=3), "what is at work keeps its place"
        dispatch.leases.release(lease, delay_ms=0, counted=True)
        dispatch.lifecycle.mover.move("r-0")
        assert swept() == SlotUse(held=0, waiting=0)
        for one in ids:
            assert worker.reach(one, "done").state == "done"
        assert busy_slots(dispatch) == []


def test_a_step_with_newer_data_is_due_again_soon_where_an_older_version_has_its_message(
    server: EmbeddedServer, prefix: str
) -> None:
    old, new = before(), numbering()
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        worker.client.submit({"number": "1"}, machine="refund", id="r-1")
        (owed,) = worker.entries("r-1")
    with registered(old):
        older = AtWork(server.url, prefix, old, INTERLOCK_POLL_S="3600")
        line = perform(older.runner, old.machine, "pay", old.handlers["pay"], owed.key("r-1"))
        assert line == "retry: not claimed: its data are of schema 2, a newer one"
        assert due_in_ms(older, owed.key("r-1")) <= SOON_MS
    with registered(new):
        assert worker.entries("r-1")[0].attempts == 0


def test_what_waits_goes_on_under_its_new_name_with_newer_data(
    server: EmbeddedServer, prefix: str
) -> None:
    old, new = asking(), approving()
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        worker.client.submit({"order": "o-1"}, machine="refund", id="r-1")
        worker.client.submit({"order": "o-2"}, machine="refund", id="r-2")
        card = worker.client.card("r-1")
        timers = worker.client.show("r-1").timers
        assert card
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        before = worker.client.show("r-1")
        assert (before.state, before.data) == ("approval", {"number": "o-1"})
        shown = worker.client.card("r-1")
        assert shown
        assert (shown.question, shown.proposal) == ("Pay o-1?", card.proposal)

        moved = worker.client.dispatch.lifecycle.mover.move("r-1")

        assert (moved.state, moved.schema, moved.was) == ("approval", 2, "")
        assert (moved.version, moved.entered) == (before.version + 1, before.entered)
        assert moved.timers == timers
        event = worker.client.history("r-1")[-1]
        assert isinstance(event, Event)
        assert (event.trigger, event.source, event.target) == ("moved", "asking", "approval")
        assert event.says == "asking is called approval now; its data are of schema 2 now"
        assert worker.client.dispatch.lifecycle.mover.move("r-1") == moved
        # The answer to the card that the old version has shown is taken, and moves r-2 first.
        for one in ("r-1", "r-2"):
            worker.client.decide(one, "approve", proposal=f"{one}:1")
            assert worker.work(one).state == "done"
        triggers = [
            each.trigger for each in worker.client.history("r-2") if isinstance(each, Event)
        ]
        assert triggers == ["created", "moved", "approve", "to_done"]
        counts = worker.client.dispatch.views.counts([new.machine])
        assert {state: n for state, n in counts["refund"].items() if n} == {"done": 2}


def test_what_is_still_to_be_moved_is_listed_and_counted_by_its_present_name(
    server: EmbeddedServer, prefix: str
) -> None:
    old, new = asking(), approving()
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        for n in range(2):
            worker.client.submit({"order": "o"}, machine="refund", id=f"r-{n}")
    with registered(new):
        client = AtWork(server.url, prefix, new).client
        client.dispatch.tables.keep("refund", "older", outline_of(old.machine))
        for _ in range(3):  # none of them is moved, one, and both
            for asked in (None, "approval", "asking"):
                rows = client.list(machine="refund", state=asked)
                assert sorted((row.id, row.state) for row in rows) == [
                    ("r-0", "approval"),
                    ("r-1", "approval"),
                ]
                counted = client.counts(machine="refund", state=asked).machines
                assert counted == {"refund": {"approval": 2}}
            counts = client.dispatch.views.counts([new.machine])["refund"]
            assert {state: number for state, number in counts.items() if number} == {"approval": 2}
            left = next(client.dispatch.older_records.ids(new.machine, partition_of("r-0")), "r-1")
            client.dispatch.lifecycle.mover.move(left)


def test_a_step_that_is_owed_goes_on_under_its_new_name_with_its_key_and_its_results(
    server: EmbeddedServer, prefix: str
) -> None:
    begun: list[str] = []
    old, new = sending("send", begun), sending("dispatch", begun, renamed={"send": "dispatch"})
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        worker.client.submit({"order": "o-1"}, machine="refund", id="r-1")
        assert worker.perform("r-1").startswith("retry")
        (owed,) = worker.entries("r-1")
    with registered(new):
        worker = AtWork(server.url, prefix, new)

        def is_renamed() -> bool:
            worker.sweep("r-1")
            return worker.entries("r-1")[0].name == "dispatch"

        until(is_renamed, what="the sweep finds what is due, and gives it its new name")
        (moved,) = worker.entries("r-1")
        assert (moved.name, moved.key("r-1")) == ("dispatch", owed.key("r-1"))
        assert (moved.attempts, moved.not_before) == (owed.attempts, owed.not_before)
        assert worker.reach("r-1", "done").state == "done"
    key = owed.key("r-1")
    assert begun == [f"weigh {key}", f"send {key}", f"dispatch {key}"]


def test_a_step_that_may_be_done_once_and_was_lost_asks_under_its_new_name(
    server: EmbeddedServer, prefix: str
) -> None:
    begun: list[str] = []
    old = sending("send", begun, once=True)
    new = sending("dispatch", begun, once=True, renamed={"send": "dispatch"})
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        worker.client.submit({"order": "o-1"}, machine="refund", id="r-1")
        (owed,) = worker.entries("r-1")
        dispatch = worker.client.dispatch
        effect = dispatch.effect("refund", "send")
        dispatch.leases.claim(owed.key("r-1"), effect, nonce="n", holder="killed", schema=1)
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        with pytest.raises(HeldError, match="send is at work by an older version of the table"):
            worker.client.dispatch.lifecycle.mover.move("r-1")
        assert worker.client.show("r-1").state == "dispatch"

        def is_asked() -> bool:
            worker.sweep("r-1")
            return worker.client.show("r-1").state == "dispatch_unclear"

        until(is_asked, what="the lease of the killed worker is over, and a person is asked")
        assert worker.answer("r-1", "done").state == "done"
    assert not begun


def test_a_step_gets_newer_data_and_a_migration_that_raises_fails_it_with_its_line(
    server: EmbeddedServer, prefix: str
) -> None:
    old, new = before(), numbering()
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        worker.client.submit({"order": "o-1"}, machine="refund", id="r-1")
        worker.client.submit({"order": "none"}, machine="refund", id="r-2")
        (waiting,) = worker.entries("r-2")
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        assert worker.work("r-1").state == "done"
        assert worker.client.show("r-1").data == {"number": "o-1", "paid": True}

        line = perform(worker.runner, new.machine, "pay", new.handlers["pay"], waiting.key("r-2"))
        assert line.startswith("retry: tried again in ")
        assert "migrate raised" in line
        assert f"({__file__}, line " in line
    with registered(old):
        assert AtWork(server.url, prefix, old).client.show("r-2").data == {"order": "none"}


def test_what_is_owed_by_a_new_name_is_due_at_once(server: EmbeddedServer, prefix: str) -> None:
    old, new = before(), after()
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        worker.client.submit({"order": "o-1"}, machine="refund", id="r-1")
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        dispatch = worker.client.dispatch
        dispatch.lifecycle.mover.move("r-1")

        index = dispatch.keys.effects(partition_of("r-1"))
        due = dispatch.client.zscore(index, worker.entries("r-1")[0].key("r-1"))
        assert due is not None
        assert due <= dispatch.views.now_ms()
        assert not dispatch.views.counts([old.machine])["refund"]["pay"]
        assert dispatch.views.counts([new.machine])["refund"]["payment"] == 1


def test_an_outcome_that_is_kept_for_a_renamed_state_is_committed_by_its_present_name(
    server: EmbeddedServer, prefix: str
) -> None:
    old = pausing("pause", {"text": 1})
    new = pausing("rest", {"text": 1, "o-1": 2}, renamed={"pause": "rest"})
    with registered(old):
        worker = AtWork(server.url, prefix, old)
        worker.client.submit({"order": "o-1"}, machine="refund", id="r-1")
        assert "its outcome to_pause is kept" in worker.perform("r-1")
    with registered(new):
        worker = AtWork(server.url, prefix, new)
        worker.client.retry("r-1")

        assert worker.work("r-1").state == "rest"
