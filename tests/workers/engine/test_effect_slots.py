"""A worker does no more effects at one time than have a slot, and passes each slot on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from interlock.kernel.errors import StoreDownError
from interlock.kernel.record import partition_of
from interlock.kernel.store.commands import EffectMessage
from interlock.kernel.store.leases import Lease, Refused
from interlock.kernel.store.scripts import read
from interlock.kernel.store.slots import Needed, Taken
from interlock.kernel.table import Active
from interlock.workers.client import Client
from interlock.workers.engine.effect_slots import claim_with_slot
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.slot_waits import busy_slots
from interlock.workers.engine.sweeps import slots as sweep
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops import page
from interlock.workers.ops.description import describe
from interlock.workers.ops.doctor import diagnose
from interlock.workers.ops.top.screen import rendered
from interlock.workers.ops.top.snapshot import SnapshotReader
from interlock.workers.ops.verify import verify_all
from interlock.workers.terminal.printed_page import PagePrinter
from interlock.workers.terminal.screen import out
from tests.kernel.store.machines_limited import LIMITED
from tests.known_systems import know_machines
from tests.sweeping import sweeping
from tests.workers.engine.running import perform, settings_for

ACME = "limited.pay:acme"


class Worker:
    """A client and a worker that know the machine `limited`, and note what they publish."""

    def __init__(self, server: EmbeddedServer, prefix: str, patch: pytest.MonkeyPatch) -> None:
        know_machines(patch, limited=lambda: LIMITED)
        self.client = Client(settings_for(server.url, prefix), actor="ann")
        self.dispatch, self.published = self.client.dispatch, list[str]()
        self.runner = Runner(self.dispatch, Resources(self.client.settings))
        self.inside: Callable[[EffectWork], None] = lambda work: None  # noqa: ARG005 - does nothing
        publish = self.dispatch.publish

        def noted(messages: Sequence[EffectMessage]) -> int:
            self.published += [message.key.partition(":")[0] for message in messages]
            return publish(messages)

        patch.setattr(self.dispatch, "publish", noted)

    def owing(self, *ids: str, tenant: str = "acme", by: str = "pay") -> None:
        for one in ids:
            self.client.submit({"tenant": tenant}, machine="limited", id=one)
            self.client.fire(one, by)

    def handle(self, work: EffectWork) -> Outcome:
        self.inside(work)
        return Outcome("paid" if work.lease.name == "pay" else "sent")

    def work(self, record_id: str) -> str:
        entry = self.client.show(record_id).entries[0]
        return perform(self.runner, LIMITED, entry.name, self.handle, entry.key(record_id))

    def claimed(self, record_id: str) -> Lease:
        """Claim an effect as a worker does that is killed afterwards."""
        entry = self.client.show(record_id).entries[0]
        effect = self.dispatch.effect("limited", entry.name)
        key = entry.key(record_id)

        def claim(*, slot: str = "") -> Lease | Refused:
            return self.dispatch.leases.claim(
                key, effect, nonce="killed", holder="killed", schema=9, slot=slot
            )

        refused = claim()
        assert isinstance(refused, Refused)
        lease, _ = claim_with_slot(self.dispatch, key, effect, claim, refused)
        assert isinstance(lease, Lease), lease
        return lease

    def sweep(self) -> dict[str, int]:
        partition = partition_of(ACME)
        checked = self.dispatch.keys.checked_slots(partition)
        read(self.dispatch.client, "ZADD", checked, 0, ACME)
        return dict(sweep.run(sweeping(self.dispatch), partition))

    def held(self) -> int:
        return self.dispatch.leases.slots.use([ACME])[ACME].held


@pytest.fixture
def worker(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(server, prefix, monkeypatch)


def test_who_gets_no_slot_waits_and_is_published_when_one_is_free(worker: Worker) -> None:
    worker.owing("a", "b", "c")
    seen: list[str] = []

    def inside(work: EffectWork) -> None:
        if work.record.id == "a":
            seen.append(worker.work("b"))
        elif work.record.id == "b":
            seen.append(worker.work("c"))
            seen.append(worker.client.outlook(worker.client.show("c")))
            seen.extend(busy_slots(worker.dispatch))

    worker.inside = inside
    assert worker.work("a") == "paid -> done"
    assert seen == [
        "retry: not claimed: slot (2 of 2 for acme are at work, and 1 wait)",
        "pay waits: 2 of 2 for acme are at work, and 1 wait",
        "limited.pay: 2 of 2 for acme are at work, and 1 wait",
        "paid -> done",
    ]
    assert worker.published == ["c"]
    assert worker.client.show("c").entries[0].attempts == 0
    assert worker.work("c") == "paid -> done"
    assert (worker.held(), busy_slots(worker.dispatch)) == (0, [])


@pytest.mark.parametrize("end", ["fails", "is stopped"])
def test_a_slot_is_free_however_the_effect_ends(worker: Worker, end: str) -> None:
    worker.owing("a")

    def inside(work: EffectWork) -> None:
        if end == "fails":
            raise ValueError
        worker.runner.shut_down()
        work.raise_if_stopped()

    worker.inside = inside
    assert worker.work("a").startswith("retry: ")
    assert worker.held() == 0


def test_a_slot_is_free_if_the_effect_cannot_be_claimed_with_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.owing("a")
    slots = worker.dispatch.leases.slots
    acquire = slots.acquire

    def paused(key: str, needed: Needed, limit: int) -> Taken:
        worker.client.pause("a")
        return acquire(key, needed, limit)

    monkeypatch.setattr(slots, "acquire", paused)
    assert worker.work("a") == "retry: not claimed: paused"
    assert worker.held() == 0


def test_a_second_message_takes_no_slot_from_the_first(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.owing("a")
    slots = worker.dispatch.leases.slots
    acquire = slots.acquire

    def behind(key: str, needed: Needed, limit: int) -> Taken:
        monkeypatch.setattr(slots, "acquire", acquire)
        worker.claimed("a")
        return acquire(key, needed, limit)

    monkeypatch.setattr(slots, "acquire", behind)
    assert worker.work("a") == "ignored: not claimed: held killed"
    assert worker.held() == 1
    assert verify_all(worker.dispatch, None)["faults"] == []


def test_an_effect_that_goes_on_elsewhere_keeps_its_slot(worker: Worker) -> None:
    worker.owing("a")
    worker.inside = lambda work: work.handed_over.set()

    assert worker.work("a").startswith("ignored")
    assert worker.held() == 1


def test_an_effect_whose_lease_could_not_be_ended_keeps_its_slot(worker: Worker) -> None:
    worker.owing("a")

    def inside(work: EffectWork) -> None:
        del work
        raise StoreDownError

    worker.inside = inside
    assert worker.work("a").startswith("retry: given up")
    assert worker.held() == 1
    assert worker.client.show("a").entries[0].state == "leased"


def test_an_offer_that_cannot_be_used_goes_on_to_the_next_at_once(worker: Worker) -> None:
    worker.owing("a", "b", "c", "d", "e")

    def inside(work: EffectWork) -> None:
        if work.record.id == "a":
            worker.claimed("b")
            for waits in "cde":
                assert "slot" in worker.work(waits)
            worker.client.fire("c", "cancel")
            worker.client.pause("d")

    worker.inside = inside
    worker.work("a")
    assert worker.published == ["e"]
    worker.client.resume("d")
    assert "slot" in worker.work("d"), "it waits again"


def test_a_sweep_frees_the_slot_of_a_worker_that_died_after_its_commit(worker: Worker) -> None:
    worker.owing("a", "b", "c")
    worker.claimed("a")
    lease = worker.claimed("b")
    assert "slot" in worker.work("c")
    work = EffectWork(worker.dispatch, Resources(worker.client.settings), lease, asked_at=0)
    work.fire(Outcome("paid"))
    assert worker.published == []

    assert worker.sweep() == {"freed": 1}
    assert worker.published == ["c"]
    assert worker.sweep() == {"checked": 1}
    assert worker.work("c") == "paid -> done"


def test_slots_of_a_machine_that_is_not_known_here_are_left_alone(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.owing("a")
    worker.claimed("a")
    worker.client.fire("a", "cancel")
    monkeypatch.setattr(worker.dispatch, "machines", {})

    assert worker.sweep() == {"not ours": 1}
    assert worker.held() == 1
    assert sweep.run(sweeping(worker.dispatch), partition_of(ACME)) == {}, "others have their turn"


@pytest.mark.parametrize("concurrency", [3, 0])
def test_a_limit_that_is_raised_or_lifted_counts_at_once(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    worker.owing("a", "b", "c")
    worker.claimed("a")
    worker.claimed("b")
    assert "slot" in worker.work("c")
    changes: Any = {"slot_key": None} if not concurrency else {}
    stages = [
        replace(stage, effect=replace(stage.effect, concurrency=concurrency), **changes)
        if isinstance(stage, Active) and stage.effect
        else stage
        for stage in LIMITED.stages
    ]
    changed = replace(LIMITED, stages=tuple(stages))
    know_machines(monkeypatch, limited=lambda: changed)
    worker.sweep()

    assert worker.published == ["c"]
    assert worker.work("c") == "paid -> done"


def test_those_who_look_read_who_waits_for_a_slot(worker: Worker) -> None:
    worker.owing("a", "b", "c")
    worker.claimed("a")
    worker.claimed("b")
    assert "slot" in worker.work("c")
    said = "2 of 2 for acme are at work, and 1 wait"

    assert describe(worker.client, "c")["outlook"] == f"pay waits: {said}"
    value = diagnose(worker.dispatch)
    assert value["slots"] == [f"limited.pay: {said}"]
    with out.capture() as printed:
        well = {**value, "left_out": {}, "workers": {"one": []}, "problems": []}
        PagePrinter().print(page.diagnosis(well))
    assert said in printed.get()
    snapshot = SnapshotReader(worker.client).read()
    assert not worker.dispatch.owed.oldest(), "nothing looks stuck"
    console = Console(width=200)
    with console.capture() as printed:
        console.print(rendered(snapshot, width=200, height=None))
    assert f"limited.pay: {said}" in printed.get()


def test_verify_compares_slots_with_leases(worker: Worker) -> None:
    worker.owing("a")
    lease = worker.claimed("a")
    client, keys = worker.dispatch.client, worker.dispatch.keys
    assert verify_all(worker.dispatch, None)["faults"] == []
    holders = keys.effect_slots(ACME)["holders"]
    read(client, "ZREM", holders, lease.key)
    assert verify_all(worker.dispatch, None)["faults"] == [
        f"a: {lease.key} is missing in {holders}"
    ]
    read(client, "ZADD", holders, 1, lease.key)
    read(client, "ZREM", keys.checked_slots(partition_of(ACME)), ACME)
    assert verify_all(worker.dispatch, None)["faults"] == [
        f"no sweep checks the slots {ACME}, which effects have"
    ]
