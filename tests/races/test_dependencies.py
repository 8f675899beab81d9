"""A job counts the end of each dependency once, whenever it ends and whichever worker is lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from interlock.kernel.machines.jobs.effects import SCHEDULING
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.races.in_process_worker import Calls, Hands, LostError

PAIRS = 150
APART_S = 0.006


@pytest.fixture
def hands(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Hands:
    """Return a worker of this process, under the server's own clock."""
    return Hands(server.url, prefix, tmp_path)


@pytest.fixture
def still(server: EmbeddedServer, prefix: str, tmp_path: Path, text: Text) -> Hands:
    """Return a worker whose clock stands still until the test moves it."""
    text.now_us = START_US
    return Hands(server.url, prefix, tmp_path, text=text)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def race(*acts: Callable[[], object]) -> None:
    """Run functions in threads at nearly the same time, with random delays, in every order."""
    start = Barrier(len(acts))

    def run(act: Callable[[], object]) -> None:
        late_s = random.uniform(0, APART_S)
        start.wait()
        time.sleep(late_s)  # the workload, not a wait for anything
        act()

    with ThreadPoolExecutor(len(acts)) as pool:
        list(pool.map(run, acts))


# --- at the same moment ----------------------------------------------------------------------


@pytest.mark.proof
@pytest.mark.parametrize("end", ["force-success", "cancel"])
def test_a_dependency_that_ends_while_its_dependent_is_activated_counts_once(
    hands: Hands, end: str
) -> None:
    counted = {"tell": 0, "registration": 0}
    for number in range(PAIRS):
        needed = hands.job(f"g/a{number}")
        waits = hands.job(f"{'gh'[number % 2]}/b{number}", activate=False, depends_on=[needed])

        def ends(needed: str = needed) -> None:
            hands.over(needed, end)
            hands.do(needed, "tell")

        def begins(waits: str = waits) -> None:
            hands.graphs.command(waits, "activate")
            hands.do(waits, "registration")

        race(ends, begins)
        heard_late = bool(list(hands.dispatch.tells.dependents(needed)))
        counted["tell" if heard_late else "registration"] += 1
        meets(hands, needed, waits, lost=end == "cancel")
    assert min(counted.values()) > PAIRS // 20, f"one order was hardly tried: {counted}"
    hands.sound()


@pytest.mark.proof
def test_a_dependency_that_ends_while_its_dependent_is_resumed_and_recounted_counts_once(
    hands: Hands,
) -> None:
    for number in range(PAIRS):
        needed = hands.job(f"g/a{number}")
        waits = hands.job(f"h/b{number}", depends_on=[needed])
        if number % 2:
            hands.settle(needed, waits)
        hands.graphs.command(waits, "suspend")

        def ends(needed: str = needed) -> None:
            hands.over(needed)
            hands.do(needed, "tell")

        def resumes(waits: str = waits) -> None:
            hands.graphs.command(waits, "resume")
            hands.do(waits, "registration")

        def looks(waits: str = waits) -> None:
            hands.dispatch.owe(waits, SCHEDULING, {"why": "a test"}, f"look:{waits}")
            hands.do(waits, "scheduling")

        race(ends, resumes, looks)
        meets(hands, needed, waits)
    hands.sound()


def test_a_fan_in_whose_dependencies_all_end_at_once_is_met_once(hands: Hands) -> None:
    for number in range(PAIRS // 10):
        needed = [hands.job(f"g{part}/a{number}") for part in range(8)]
        waits = hands.job(f"h/b{number}", activate=False, depends_on=needed)

        def ends(job_id: str) -> Callable[[], object]:
            return lambda: (hands.over(job_id), hands.do(job_id, "tell"))

        def begins(waits: str = waits) -> None:
            hands.graphs.command(waits, "activate")
            hands.do(waits, "registration")

        race(begins, *map(ends, needed))
        meets(hands, *needed, waits)
    hands.sound()


def meets(hands: Hands, *ids: str, lost: bool = False) -> None:
    """Perform the effects that are due now: without a later one, all dependencies must be met."""
    waits = ids[-1]
    hands.settle(*ids)
    if lost:
        assert hands.count(waits, "dependency_lost") == 1
        assert hands.record(waits).data["lost"] == {ids[0]: "canceled"}
        hands.graphs.command(waits, "waive", {"reason": "goes without"})
        hands.settle(*ids)
    assert hands.record(waits).data["met"], f"{waits} is stranded"
    assert hands.count(waits, "dependencies_met") == 1
    assert hands.countdowns(waits) == set()


# --- lost workers ----------------------------------------------------------------------------


def lost(hands: Hands, calls: Calls, after: int, job_id: str, name: str) -> bool:
    """Perform an effect, losing its worker after this many calls; return whether it was lost."""
    with calls.lost_after(after):
        try:
            hands.do(job_id, name)
        except LostError:
            hands.lapse()
            return True
    return False


@pytest.mark.proof
def test_a_worker_lost_at_any_step_of_registration_or_tell_loses_and_doubles_nothing(
    still: Hands, calls: Calls
) -> None:
    """Two dependencies have ended, two end later; one of each two is canceled."""
    step, going = 0, True
    while going:
        going, later_step, later = False, 0, True
        while later:
            names = [f"g{step}/{later_step}.{name}" for name in ("well", "ill", "later", "worse")]
            for one in names:
                still.job(one)
            still.settle(*names)
            still.over(names[0])
            still.over(names[1], "cancel")
            waits = still.job(f"h{step}/{later_step}", depends_on=names)

            going = lost(still, calls, step, waits, "registration") or going
            still.over(names[2])
            later = lost(still, calls, later_step, names[2], "tell")
            still.over(names[3], "cancel")
            later = lost(still, calls, later_step, names[3], "tell") or later

            still.settle(*names, waits)
            assert sorted(still.record(waits).data["lost"]) == sorted([names[1], names[3]])
            assert still.count(waits, "dependency_lost") == 2
            assert still.count(waits, "dependencies_met") == 0
            still.graphs.command(waits, "waive", {"reason": "goes without"})
            still.settle(waits)
            assert still.count(waits, "dependencies_met") == 1, (step, later_step)
            assert still.countdowns(waits) == set()
            later_step += 1
        step += 1
    still.sound()
    assert (step, later_step) > (8, 3), "every step was tried"
