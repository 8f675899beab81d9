"""The worker app of the tests: `interlock.workers.main`, with a kill -9 where a record asks.

A record whose id is `kill-<point>-<effect>-...` kills the worker that comes to that point of that
effect for the first time. With DEPLOYMENT_BROKER=bad three of ten messages are lost on their way to
this worker, and three of ten come twice at once. With DEPLOYMENT_WITHOUT=<effect> that effect's
handler does nothing. Nothing else differs from a worker that is deployed.
"""

from __future__ import annotations

import functools
import os
import random
import threading
from collections.abc import Callable
from typing import Any

import interlock.workers.systems
from interlock.kernel.store.leases import Lease, Leases
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.work import Work
from interlock.workers.systems import handlers
from tests.end_to_end.threads.capabilities import die, first_time


def reach(point: str, record_id: str, effect: str) -> None:
    """Die here if this record asks for it, once."""
    if record_id.startswith(f"kill-{point}-{effect}") and first_time(f"{record_id}-{point}"):
        die()


def around(owner: type, name: str, before: Callable[..., None], after: Callable[..., None]) -> None:
    """Reach a point before and after each call of a method."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        before(self, *args)
        answer = method(self, *args, **kwargs)
        after(self, answer, *args)
        return answer

    setattr(owner, name, wrapped)


def do_nothing(*_: Any) -> None:
    """Reach nothing."""


def to_claim(_: Leases, key: str, effect: Any) -> None:
    reach("before_claim", key.partition(":")[0], effect.name)


def claimed(_: Leases, answer: Any, key: str, effect: Any) -> None:
    if isinstance(answer, Lease):
        reach("after_claim", key.partition(":")[0], effect.name)


def to_fire(work: Work, outcome: Any) -> None:
    if outcome.trigger != "inference_started":
        reach("before_commit", work.record.id, work.lease.name)


def fired(work: Work, _: Any, outcome: Any) -> None:
    point = "after_start" if outcome.trigger == "inference_started" else "after_commit"
    reach(point, work.record.id, work.lease.name)


def to_settle(_: Leases, lease: Lease, *__: Any) -> None:
    reach("before_settle", lease.record.id, lease.name)


def settled(_: Leases, __: Any, lease: Lease, *___: Any) -> None:
    reach("after_settle", lease.record.id, lease.name)


def child_created(_: Dispatch, __: Any, machine: str, new_id: str, *___: Any) -> None:
    del machine
    reach("between_children", new_id.partition("/")[0], "spawn")


def spoil(perform: Callable[..., str]) -> Callable[..., str]:
    """Lose some messages, and double some."""

    def spoilt(*args: Any) -> str:
        dice = random.random()
        if dice < 0.3:
            return "lost by the broker"
        if dice < 0.6:
            threading.Thread(target=perform, args=args, daemon=True).start()
        return perform(*args)

    return spoilt


if os.environ.get("DEPLOYMENT_BROKER") == "bad":
    setattr(Runner, "perform", spoil(Runner.perform))  # noqa: B010 - the type is a method's

if without := os.environ.get("DEPLOYMENT_WITHOUT"):
    # interlock.workers.main, imported below, registers what this returns.
    found = {**handlers(), without: do_nothing}
    vars(interlock.workers.systems)["handlers"] = lambda: found

around(Leases, "claim", to_claim, claimed)
around(Leases, "settle", to_settle, settled)
around(Work, "fire", to_fire, fired)
around(Dispatch, "create", do_nothing, child_created)

# Imported last: importing it makes the app of this process.
from interlock.workers.main import app  # noqa: E402

__all__ = ["app"]
