"""The worker app of the tests: `interlock.workers.main`, with faults that a test asks for.

A record whose id is `kill-<point>-<effect>-...` kills the worker that first comes to that point of
that effect; an effect that a thread goes on with is claimed where the thread takes its lease. With
DEPLOYMENT_BROKER=bad three of ten messages for an effect are lost at this worker, never two in a
row, and three come twice at once. With DEPLOYMENT_WITHOUT=<effect> that effect's handler does
nothing.
Its fork server is forked by the preloaded process. Otherwise it is a deployed worker.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import interlock.workers.systems
from interlock.kernel.lifecycle import Lifecycle
from interlock.kernel.store.leases import Lease, Leases
from interlock.systems import NAMES
from interlock.workers.engine.continuing import Continuing, Granted
from interlock.workers.engine.own_systems import add_systems
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.work import EffectWork
from interlock.workers.supervision.launch import ForkServerLink
from interlock.workers.systems import handlers
from tests.end_to_end.engine.preloaded import FORK_SERVERS, request_fork_server
from tests.end_to_end.threads.capabilities import die, first_time

# How often each of ten messages for an effect arrives. An effect begins somewhere in them. Were the
# losses random, one effect in some thousands would lose so many in a row that it outlasts its test:
# the time to the next message doubles with each.
ARRIVALS = (0, 1, 2, 0, 1, 2, 1, 0, 2, 1)


def reach(point: str, record_id: str, effect: str) -> None:
    """Kill this process once, if the id of this record names this point."""
    if record_id.startswith(f"kill-{point}-{effect}") and first_time(f"{record_id}-{point}"):
        die()


def around(owner: type, name: str, before: Callable[..., None], after: Callable[..., None]) -> None:
    """Call functions before and after each call of a method."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        before(self, *args)
        answer = method(self, *args, **kwargs)
        after(self, answer, *args)
        return answer

    setattr(owner, name, wrapped)


def do_nothing(*_: Any) -> None:
    """Do nothing, as a handler or at a point."""


def before_claim(_: Leases, key: str, effect: Any) -> None:
    reach("before_claim", key.partition(":")[0], effect.name)


def after_claim(_: Leases, answer: Any, key: str, effect: Any) -> None:
    if isinstance(answer, Lease):
        reach("after_claim", key.partition(":")[0], effect.name)


def before_taking(continuing: Continuing, _: str) -> None:
    if (stretch := continuing._stretch) and stretch.granted:
        lease = stretch.granted.lease
        reach("before_claim", lease.record.id, lease.name)


def after_taking(_: Continuing, granted: Granted | None, __: str) -> None:
    if granted:
        reach("after_claim", granted.lease.record.id, granted.lease.name)


def before_fire(work: EffectWork, outcome: Any, *_: Any) -> None:
    if outcome.trigger != "inference_started":
        reach("before_commit", work.record.id, work.lease.name)


def after_fire(work: EffectWork, _: Any, outcome: Any, *__: Any) -> None:
    point = "after_start" if outcome.trigger == "inference_started" else "after_commit"
    reach(point, work.record.id, work.lease.name)


def before_settle(_: Leases, lease: Lease, *__: Any) -> None:
    reach("before_settle", lease.record.id, lease.name)


def after_settle(_: Leases, __: Any, lease: Lease, *___: Any) -> None:
    reach("after_settle", lease.record.id, lease.name)


def after_create(_: Lifecycle, __: Any, machine: str, new_id: str, *___: Any) -> None:
    del machine
    reach("between_children", new_id.partition("/")[0], "spawn")


def with_bad_broker(perform: Callable[..., str]) -> Callable[..., str]:
    """Lose some messages, and deliver some twice."""
    numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    def perform_badly(runner: Runner, *work: Any) -> str:
        if (stretch := runner.continuing._stretch) and stretch.granted:
            return perform(runner, *work)  # no message brought it
        key: str = work[-1]
        arrives = ARRIVALS[(crc32(key.encode()) + next(numbers[key])) % len(ARRIVALS)]
        if not arrives:
            return "lost by the broker"
        if arrives > 1:
            threading.Thread(target=perform, args=(runner, *work), daemon=True).start()
        return perform(runner, *work)

    return perform_badly


if os.environ.get("DEPLOYMENT_BROKER") == "bad":
    setattr(Runner, "perform", with_bad_broker(Runner.perform))  # noqa: B010 - the type is a method's

if without := os.environ.get("DEPLOYMENT_WITHOUT"):
    # interlock.workers.main, imported below, registers these handlers.
    add_systems(NAMES, Path())
    found = {
        task: do_nothing if task.partition(".")[2] == without else handler
        for task, handler in handlers().items()
    }
    vars(interlock.workers.systems)["handlers"] = lambda: found

if FORK_SERVERS in os.environ:
    setattr(ForkServerLink, "_start", request_fork_server)  # noqa: B010 - the type is a method's

around(Leases, "claim", before_claim, after_claim)
around(Continuing, "take", before_taking, after_taking)
around(Leases, "settle", before_settle, after_settle)
around(EffectWork, "fire", before_fire, after_fire)
around(Lifecycle, "create", do_nothing, after_create)

# Imported last, because importing it makes the app of this process.
from interlock.workers.main import app  # noqa: E402

__all__ = ["app"]
