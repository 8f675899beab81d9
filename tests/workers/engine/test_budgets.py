"""What handlers reserve and spend under the budget of a family, and what follows from none left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from enum import StrEnum, auto
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.amounts import amounts
from interlock.kernel.effect import RESOLUTION, Effect
from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.payload import Shape
from interlock.kernel.record import partition_of
from interlock.kernel.rows import by, move, reenter, rows
from interlock.kernel.store.leases import Lease
from interlock.kernel.table import ORPHANS, PERSON, STALLS, Active, Terminal, Waiting
from interlock.kernel.timer import Timer
from interlock.kernel.traits import Bookkeeping, Placement
from interlock.workers.engine.sweeps import orphans
from interlock.workers.engine.work import EffectWork, Outcome, OverBudgetError
from interlock.workers.gateways.server import EmbeddedServer
from tests.conftest import NewProxy
from tests.known_systems import know_machines
from tests.sweeping import sweeping
from tests.waiting import until
from tests.workers.engine.running import Running, perform, settings_for

READ = Effect("read")
HOUR_MS = 3_600_000


class S(StrEnum):
    OPEN = auto()
    READING = auto()
    READ = auto()
    SPENT = auto()


class T(StrEnum):
    CLOSE = auto()
    DID = auto()
    OVER = auto()
    STALL = auto()


class Over(Shape):
    code: str
    detail: str


# A shelf has a budget for its pages, which are of another machine.
SHELF = Machine(
    name="shelf",
    initial_data=dict,
    stages=(
        Waiting(S.OPEN, (Timer("reminder", lambda _: HOUR_MS, effect=RESOLUTION),)),
        Terminal(S.READ),
    ),
    transitions=rows(S.OPEN, move(T.CLOSE, S.READ, by(PERSON))),
    bookkeeping=Bookkeeping(bounds=lambda data: amounts(**data)),
)
STALL = (Timer("stall", lambda _: HOUR_MS, T.STALL),)
LEAF = Machine(
    name="leaf",
    initial_data=dict,
    stages=(
        Active(S.READING, STALL, effect=READ, outcomes=(T.DID,)),
        Terminal(S.READ, is_success=True),
        Terminal(S.SPENT),
    ),
    transitions=rows(
        S.READING,
        move(T.DID, S.READ, by(READ)),
        move(T.OVER, S.SPENT, by(READ, ORPHANS)),
        reenter(T.STALL, by(STALLS)),
    ),
    payloads={T.OVER: Over},
    placement=Placement(id_prefix=("shelf",)),
)
PAGE = Machine(
    name="page",
    initial_data=dict,
    stages=(
        Active(S.READING, STALL, effect=READ, outcomes=(T.DID,), over=T.OVER),
        *LEAF.stages[1:],
    ),
    transitions=LEAF.transitions,
    payloads=LEAF.payloads,
    placement=LEAF.placement,
)
DID = Outcome(T.DID)
ROOT = Path(__file__).parents[3]


def add_machines() -> None:
    MACHINES.add("shelf", lambda: SHELF)
    MACHINES.add("page", lambda: PAGE)
    MACHINES.add("leaf", lambda: LEAF)


@pytest.fixture(autouse=True)
def machines(monkeypatch: pytest.MonkeyPatch) -> None:
    know_machines(monkeypatch)
    add_machines()


@pytest.fixture
def running(server: EmbeddedServer, prefix: str) -> Iterator[Running]:
    made = Running(settings_for(server.url, prefix))
    yield made
    made.dispatch.client.close()


def shelve(running: Running, *pages: str, machine: str = "page", **budget: float) -> list[str]:
    """Create a shelf with a budget, and pages on it."""
    ids = [f"shelf/{page}" for page in pages]
    for new_id in ("shelf", *ids):
        kind, data = (machine, {}) if new_id in ids else ("shelf", budget)
        running.dispatch.lifecycle.create(kind, new_id, data, Cause("test"))
    return ids


def claimed(running: Running, page: str, nonce: str = "n") -> EffectWork:
    record = running.client.show(page)
    (entry,) = record.entries
    effect = running.dispatch.effect(record.machine, entry.name)
    lease = running.dispatch.leases.claim(
        entry.key(page), effect, nonce=nonce, holder="test", schema=9
    )
    assert isinstance(lease, Lease), lease
    work = EffectWork(running.dispatch, running.runner.resources, lease, asked_at=0)
    work.held.valid_until = 1e12
    return work


def counted(running: Running, name: str) -> dict[str, int]:
    """Return what is used, reserved and possibly lost of a budget of the shelf."""
    found = running.client.show("shelf").counters
    return {kind: found.get(f"{kind}.{name}", 0) for kind in ("tree", "reserved", "residue")}


def read(running: Running, page: str, handler: Any) -> str:
    record = running.client.show(page)
    (entry,) = record.entries
    return perform(running.runner, MACHINES[record.machine], READ.name, handler, entry.key(page))


def waits(running: Running, page: str) -> bool:
    lines = running.client.history(page)
    return any(isinstance(line, Note) and line.kind == "budget_waits" for line in lines)


def test_a_holder_waits_for_what_others_have_reserved_and_takes_what_they_give_back(
    running: Running,
) -> None:
    first, second = (claimed(running, page) for page in shelve(running, "a", "b", tokens=100))
    first.reserve(tokens=70)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.reserve, tokens=60)
        until(lambda: waits(running, "shelf/b"), what="the second waits")
        first.spend(tokens=40)
        first.fire(DID)
        waiting.result()

    assert counted(running, "tokens") == {"tree": 40, "reserved": 60, "residue": 0}


def test_a_holder_that_waits_is_over_budget_once_the_others_have_spent_it(running: Running) -> None:
    first, second = (claimed(running, page) for page in shelve(running, "a", "b", usd=1.00))
    first.reserve(usd=0.70)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.reserve, usd=0.60)
        until(lambda: waits(running, "shelf/b"), what="the second waits")
        first.spend(usd=0.58)
        with pytest.raises(OverBudgetError) as refused:
            waiting.result()

    assert (
        str(refused.value) == "$0.60 are needed, and $0.42 of $1.00 are left in the budget of shelf"
    )


def test_a_holder_that_waits_obeys_the_order_to_stop(running: Running) -> None:
    first, second = (claimed(running, page) for page in shelve(running, "a", "b", tokens=100))
    first.reserve(tokens=70)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.reserve, tokens=60)
        until(lambda: waits(running, "shelf/b"), what="the second waits")
        second.give_back()
        with pytest.raises(CancelledError):
            waiting.result()

    assert counted(running, "tokens") == {"tree": 0, "reserved": 70, "residue": 0}


def test_what_is_reserved_and_spent_counts_once_where_replies_are_lost(
    server: EmbeddedServer, new_proxy: NewProxy, prefix: str
) -> None:
    proxy = new_proxy(server.port)
    running = Running(settings_for(proxy.url, prefix))
    (page,) = shelve(running, "a", tokens=100)
    work = claimed(running, page)

    proxy.lose_reply(work.lease.token.encode())
    work.reserve(tokens=60)
    for _ in range(3):
        proxy.lose_reply(b'"spent"')
        work.spend(tokens=10)
    work.reserve(tokens=70)

    assert proxy.replies_lost == 4
    assert counted(running, "tokens") == {"tree": 30, "reserved": 70, "residue": 0}
    work.fire(DID)
    assert counted(running, "tokens") == {"tree": 30, "reserved": 0, "residue": 0}
    running.dispatch.client.close()


def test_what_a_handler_spends_after_its_lease_is_lost_counts(running: Running) -> None:
    (page,) = shelve(running, "a", tokens=100)
    work = claimed(running, page)
    work.reserve(tokens=60)
    running.dispatch.leases.release(work.lease, counted=False)
    again = claimed(running, page, "again")
    again.reserve(tokens=50)

    work.spend(tokens=20)

    assert counted(running, "tokens") == {"tree": 20, "reserved": 50, "residue": 0}


def lose(running: Running, page: str) -> None:
    """Wait until the holder of a page's effect is found lost."""

    def lapsed() -> bool:
        orphans.run(sweeping(running.dispatch), partition_of(page))
        return running.entry(page).state == "lapsed"

    until(lapsed, what="its lease has lapsed")


def test_an_outcome_that_comes_too_late_counts_and_leaves_no_residue(running: Running) -> None:
    (page,) = shelve(running, "a", tokens=100)
    work = claimed(running, page)
    work.reserve(tokens=60)
    lose(running, page)
    claimed(running, page, "again")
    assert counted(running, "tokens") == {"tree": 0, "reserved": 0, "residue": 60}

    assert work.fire_or_settle(Outcome(T.DID, deltas={"tokens": 20})) is None

    assert counted(running, "tokens") == {"tree": 20, "reserved": 0, "residue": 0}


def spend_and_die(url: str, prefix: str, page: str) -> None:
    """Reserve and spend as a worker that is killed before it has spent all of it."""
    add_machines()
    work = claimed(Running(settings_for(url, prefix)), page)
    work.reserve(tokens=60, calls=2)
    for _ in range(2):
        work.spend(tokens=10, calls=1)
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_worker_spent_counts_and_what_it_may_have_spent_is_residue(
    server: EmbeddedServer, prefix: str, running: Running
) -> None:
    (page,) = shelve(running, "a", tokens=100)
    call = f"spend_and_die({server.url!r}, {prefix!r}, {page!r})"
    killed = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import *; {call}"], check=False, cwd=ROOT
    )
    assert killed.returncode == -signal.SIGKILL
    assert counted(running, "tokens") == {"tree": 20, "reserved": 40, "residue": 0}

    lose(running, page)
    again = claimed(running, page, "again")

    assert counted(running, "tokens") == {"tree": 20, "reserved": 0, "residue": 40}
    assert counted(running, "calls") == {"tree": 2, "reserved": 0, "residue": 0}
    with pytest.raises(OverBudgetError):
        again.reserve(tokens=41)
    again.reserve(tokens=40)


def test_a_state_with_a_trigger_for_a_budget_that_is_used_up_fires_it(running: Running) -> None:
    (page,) = shelve(running, "a", tokens=100)

    def spends(work: EffectWork) -> Outcome:
        work.spend(tokens=70)
        work.reserve(tokens=31)
        return DID

    assert read(running, page, spends) == "over -> spent"
    event = running.client.history(page)[-1]
    assert isinstance(event, Event)
    said = "31 tokens are needed, and 30 of 100 tokens are left in the budget of shelf"
    assert event.payload == {"code": "over_budget", "detail": said}
    assert event.cause.reason == said


def test_a_state_without_one_ends_in_a_card_that_says_which_budget_is_used_up(
    running: Running,
) -> None:
    (page,) = shelve(running, "a", machine="leaf", tokens=100)

    def needs_too_much(work: EffectWork) -> Outcome:
        work.reserve(tokens=101)
        return DID

    read(running, page, needs_too_much)

    (card,) = running.client.open_cards.of([running.client.show(page)])
    assert "101 tokens are needed, and 100 of 100 tokens are left in the budget of shelf" in (
        card.question
    )


@pytest.mark.parametrize(
    "wrong",
    [{"tokens": -1}, {"tokens": 1.5}, {"tokens": 2**54}, {"usd": float("nan")}, {"a.b": 1}],
)
def test_what_cannot_be_counted_is_refused_and_nothing_is_reserved_or_spent(
    running: Running, wrong: dict[str, Any]
) -> None:
    (page,) = shelve(running, "a", tokens=100)
    work = claimed(running, page)

    for call in (work.reserve, work.spend):
        with pytest.raises(InvalidPayloadError):
            call(**wrong)

    assert counted(running, "tokens") == {"tree": 0, "reserved": 0, "residue": 0}


def test_forty_holders_use_a_budget_to_its_end_and_never_more(running: Running) -> None:
    pages = shelve(running, *(str(number) for number in range(40)), tokens=1_000)
    line = threading.Barrier(8)

    def reads(work: EffectWork) -> Outcome:
        work.reserve(tokens=100)
        found = running.client.show("shelf").counters
        assert found.get("tree.tokens", 0) + found["reserved.tokens"] <= 1_000
        work.spend(tokens=30)
        work.spend(tokens=25)
        return DID

    def work(number: int) -> None:
        line.wait(180)
        for page in pages[number::8]:
            read(running, page, reads)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))

    states = [running.client.show(page).state for page in pages]
    fits = (1_000 - 100) // 55 + 1
    assert (states.count("read"), states.count("spent")) == (fits, 40 - fits)
    assert counted(running, "tokens") == {"tree": 55 * fits, "reserved": 0, "residue": 0}
