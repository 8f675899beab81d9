"""A job counts the end of each dependency once, whenever it ends and whichever worker is lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from interlock.systems.jobs.machines.effects import SCHEDULING
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.races.in_process_worker import Calls, InProcessWorker, LostError

PAIRS = 150
APART_S = 0.006


@pytest.fixture
def worker(server: EmbeddedServer, prefix: str, tmp_path: Path) -> InProcessWorker:
    """Return a worker of this process, under the server's own clock."""
    return InProcessWorker(server.url, prefix, tmp_path)


@pytest.fixture
def still(server: EmbeddedServer, prefix: str, tmp_path: Path, text: Text) -> InProcessWorker:
    """Return a worker whose clock stands still until the test moves it."""
    text.now_us = START_US
    return InProcessWorker(server.url, prefix, tmp_path, text=text)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def race(*acts: Callable[[], object], behind_s: float = 0) -> None:
    """Run functions in threads at nearly the same time, with random delays, in every order.

    The first begins `behind_s` after the others, or before them where it is negative.
    """
    start = Barrier(len(acts))

    def run(act: Callable[[], object]) -> None:
        delay_s = random.uniform(0, APART_S) + max(0, behind_s if act is acts[0] else -behind_s)
        start.wait()
        time.sleep(delay_s)  # the workload, not a wait for anything
        act()

    with ThreadPoolExecutor(len(acts)) as pool:
        list(pool.map(run, acts))


@pytest.mark.proof
@pytest.mark.parametrize("end", ["force-success", "cancel"])
def test_a_dependency_that_ends_while_its_dependent_is_activated_counts_once(
    worker: InProcessWorker, end: str
) -> None:
    counted = {"notification": 0, "subscription": 0}
    behind_s, step_s, last = 0.0, APART_S, False
    for number in range(PAIRS):
        needed = worker.create_job(f"g/a{number}")
        waits = worker.create_job(
            f"{'gh'[number % 2]}/b{number}", activate=False, depends_on=[needed]
        )

        def ends(needed: str = needed) -> None:
            worker.end_job(needed, end)
            worker.perform(needed, "notification")

        def begins(waits: str = waits) -> None:
            worker.graphs.command(waits, "activate")
            worker.perform(waits, "subscription")

        race(ends, begins, behind_s=behind_s)
        heard_late = bool(list(worker.dispatch.subscriptions.subscribers(needed)))
        counted["notification" if heard_late else "subscription"] += 1
        # The next round favours the other order, the more the longer the same one comes up, so that
        # both come up on every machine.
        step_s = 2 * step_s if heard_late == last else APART_S
        behind_s, last = behind_s + (-step_s if heard_late else step_s), heard_late
        meets(worker, needed, waits, lost=end == "cancel")
    assert min(counted.values()) > PAIRS // 20, f"one order was hardly tried: {counted}"
    worker.check_consistency()


@pytest.mark.proof
def test_a_dependency_that_ends_while_its_dependent_is_resumed_and_recounted_counts_once(
    worker: InProcessWorker,
) -> None:
    for number in range(PAIRS):
        needed = worker.create_job(f"g/a{number}")
        waits = worker.create_job(f"h/b{number}", depends_on=[needed])
        if number % 2:
            worker.run_until_idle(needed, waits)
        worker.graphs.command(waits, "suspend")

        def ends(needed: str = needed) -> None:
            worker.end_job(needed)
            worker.perform(needed, "notification")

        def resumes(waits: str = waits) -> None:
            worker.graphs.command(waits, "resume")
            worker.perform(waits, "subscription")

        def looks(waits: str = waits) -> None:
            worker.dispatch.lifecycle.wake(waits, SCHEDULING, {"why": "a test"}, f"look:{waits}")
            worker.perform(waits, "scheduling")

        race(ends, resumes, looks)
        meets(worker, needed, waits)
    worker.check_consistency()


@pytest.mark.fuzz
def test_a_fan_in_whose_dependencies_all_end_at_once_is_met_once(
    worker: InProcessWorker, *, is_proof: bool
) -> None:
    for number in range(60 if is_proof else 3):
        needed = [worker.create_job(f"g{part}/a{number}") for part in range(8)]
        waits = worker.create_job(f"h/b{number}", activate=False, depends_on=needed)

        def ends(job_id: str) -> Callable[[], object]:
            return lambda: (worker.end_job(job_id), worker.perform(job_id, "notification"))

        def begins(waits: str = waits) -> None:
            worker.graphs.command(waits, "activate")
            worker.perform(waits, "subscription")

        race(begins, *map(ends, needed))
        meets(worker, *needed, waits)
    worker.check_consistency()


def meets(worker: InProcessWorker, *ids: str, lost: bool = False) -> None:
    """Perform the effects that are due now, which must be enough to meet all dependencies."""
    waits = ids[-1]
    worker.run_until_idle(*ids)
    if lost:
        assert worker.count_events(waits, "dependency_lost") == 1
        assert worker.record(waits).data["lost"] == {ids[0]: "canceled"}
        worker.graphs.command(waits, "waive", {"reason": "goes without"})
        worker.run_until_idle(*ids)
    assert worker.record(waits).data["met"], f"{waits} is stranded"
    assert worker.count_events(waits, "dependencies_met") == 1
    assert worker.countdowns(waits) == set()


def lost(worker: InProcessWorker, calls: Calls, after: int, job_id: str, name: str) -> bool:
    """Perform an effect, losing its worker after this many calls; return whether it was lost."""
    with calls.lost_after(after):
        try:
            worker.perform(job_id, name)
        except LostError:
            worker.expire_leases()
            return True
    return False


@pytest.mark.proof
def test_a_worker_lost_at_any_step_of_registration_or_tell_loses_and_doubles_nothing(
    still: InProcessWorker, calls: Calls
) -> None:
    """Two dependencies have ended, two end later; one of each pair is canceled."""
    step, going = 0, True
    while going:
        going, later_step, later = False, 0, True
        while later:
            names = [f"g{step}/{later_step}.{name}" for name in ("well", "ill", "later", "worse")]
            for one in names:
                still.create_job(one)
            still.run_until_idle(*names)
            still.end_job(names[0])
            still.end_job(names[1], "cancel")
            waits = still.create_job(f"h{step}/{later_step}", depends_on=names)

            going = lost(still, calls, step, waits, "subscription") or going
            still.end_job(names[2])
            later = lost(still, calls, later_step, names[2], "notification")
            still.end_job(names[3], "cancel")
            later = lost(still, calls, later_step, names[3], "notification") or later

            still.run_until_idle(*names, waits)
            assert sorted(still.record(waits).data["lost"]) == sorted([names[1], names[3]])
            assert still.count_events(waits, "dependency_lost") == 2
            assert still.count_events(waits, "dependencies_met") == 0
            still.graphs.command(waits, "waive", {"reason": "goes without"})
            still.run_until_idle(waits)
            assert still.count_events(waits, "dependencies_met") == 1, (step, later_step)
            assert still.countdowns(waits) == set()
            later_step += 1
        step += 1
    still.check_consistency()
    assert (step, later_step) > (8, 3), "every step was tried"
