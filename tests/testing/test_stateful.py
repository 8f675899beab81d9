"""The state machine of Hypothesis that a workflow has."""

from __future__ import annotations

import subprocess
import sys

import pytest
import refund
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from refund import Refund

from interlock import Data, Workflow
from interlock.testing import FoundError, explore, state_machine
from interlock.testing.store import KitStore

REFUNDS = st.builds(Refund, order=st.just("o-1"), cents=st.integers(-1, 300_00))
TestRefund = state_machine(refund.refund, data=REFUNDS).TestCase
TestRefund.settings = settings(TestRefund.settings, max_examples=20)


class Order(Data):
    cents: int


def is_large(o: Order) -> bool:
    return o.cents > 100


# A small order is approved, and a large one rejected: nobody can answer about one of 100 cents.
order = Workflow("stateful_order", Order, start="approval")
order.ask(
    "approval",
    "Pay {cents}?",
    approve="done",
    reject="failed",
    offered={"approve": lambda o: o.cents < 100, "reject": is_large},
)
order.ends(done=True, failed=False)


def test_a_fault_is_found_with_a_walk_that_shows_it_again(interlock_store: KitStore) -> None:
    cents = st.sampled_from((99, 100, 101))
    orders = st.builds(Order, cents=cents)
    machine = state_machine(order, data=orders, store=interlock_store)

    with pytest.raises(FoundError) as failure:
        run_state_machine_as_test(machine, settings=machine.TestCase.settings)

    (finding,) = failure.value.report.findings
    assert finding.kind == "stranded"
    with pytest.raises(FoundError, match="its card offers no choice"):
        explore(order, Order(cents=100), replay=finding.replay, store=interlock_store)


def test_without_hypothesis_it_says_what_to_install() -> None:
    tried = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from interlock.testing import explore\n"
        "from interlock.testing import state_machine"
    )

    done = subprocess.run(
        [sys.executable, "-c", tried], capture_output=True, text=True, check=False
    )

    assert "state_machine() needs Hypothesis: pip install 'interlock[testing]'" in done.stderr
