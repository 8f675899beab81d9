"""What a handler has worked out is worked out once, whichever call of a worker is its last one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.machine import Machine
from interlock.kernel.record import partition_of
from interlock.workers.engine.sweeps import orphans
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.known_systems import know_machines
from tests.races import in_process_worker
from tests.races.in_process_worker import RECOVERED_MS, Calls, InProcessWorker, LostError
from tests.sweeping import sweeping
from tests.workers.engine.payments import Trigger, payment

ROUNDS_MAX = 20
NOTHING: dict[str, str] = {}


@pytest.fixture
def still(server: EmbeddedServer, prefix: str, tmp_path: Path, text: Text) -> InProcessWorker:
    """Return a worker whose clock stands still until the test moves it."""
    text.now_us = START_US
    return InProcessWorker(server.url, prefix, tmp_path, text=text)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def broken(_: Any) -> Any:
    return NOTHING["customer"]


def use(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    know_machines(monkeypatch, payment=lambda: machine)


class Payer:
    """The handler of a payment: it asks a rate, whose result it saves, and pays."""

    def __init__(self) -> None:
        self.asked = self.paid = 0

    def __call__(self, work: EffectWork) -> Outcome:
        work.saved("rate", self._ask)
        self.paid += 1
        return Outcome(Trigger.PAID, {"payment": f"p{self.paid}"})

    def _ask(self) -> float:
        self.asked += 1
        return 1.08


def live(worker: InProcessWorker, record_id: str, payer: Payer) -> str:
    """Let workers and sweeps go on until nothing is to be done; return the state, or what asks."""
    for _ in range(ROUNDS_MAX):
        worker.expire_leases()
        assert worker.text is not None
        assert worker.text.now_us is not None
        worker.text.now_us += RECOVERED_MS * 1_000  # until the next poll of what was lost
        orphans.run(sweeping(worker.dispatch), partition_of(record_id))
        record = worker.record(record_id)
        if record.quarantined or record.state != "paying":
            return "asks" if record.quarantined else record.state
        worker.perform(record_id, "pay", payer)
    raise AssertionError(f"{record_id} does not come to rest")


@pytest.mark.parametrize("once", [True, False])
def test_a_payment_whose_table_is_wrong_is_made_once_whichever_call_its_worker_is_lost_at(
    still: InProcessWorker, calls: Calls, monkeypatch: pytest.MonkeyPatch, *, once: bool
) -> None:
    maximum, lost, ends = 0, True, set()
    while lost:
        record_id, payer, lost = f"p{maximum}", Payer(), False
        use(monkeypatch, payment(update=broken, once=once))
        # An effect whose worker was lost is tried alone, with the handler of its name.
        monkeypatch.setattr(in_process_worker, "handlers", partial(dict, {"payment.pay": payer}))
        still.client.submit({}, id=record_id, machine="payment")
        with calls.lost_after(maximum):
            try:
                still.perform(record_id, "pay", payer)
            except LostError:
                lost = True
        end = live(still, record_id, payer)
        ends.add(end)
        use(monkeypatch, payment(once=once))
        if end == "asks":
            proposal = still.record(record_id).retry_proposal
            still.client.decide(record_id, "retry", proposal=proposal)
            assert still.perform(record_id, "pay", payer) == ["paid -> approval"]
            assert still.record(record_id).data["payment"] == f"p{payer.paid}"
        # Nobody knows what a worker has done that is lost before its outcome is kept.
        assert payer.paid <= (1 if once else 2)
        assert payer.asked <= 2
        maximum += 1

    still.check_consistency()
    assert ends == ({"asks", "unclear"} if once else {"asks"})
    assert maximum > 5, "each call was the last one once"
