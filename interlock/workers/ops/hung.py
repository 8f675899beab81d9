"""Names the attempts that go on in workers although their time is over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from interlock.workers.engine.celery_app import INTAKE_QUEUE, queue_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.thread_pool import HUNG_COMMAND, HUNG_MAX
from interlock.workers.terminal.screen import age


def hung_attempts(
    dispatch: Dispatch, served: Mapping[str, set[str]], within_s: float
) -> Iterator[str]:
    """Yield a sentence about each such attempt; `served` has the queues of each worker."""
    intake = queue_of(dispatch.settings, INTAKE_QUEUE)
    asked = [node for node, queues in served.items() if queues != {intake}]
    if not asked:
        return
    control = dispatch.publisher.app.control
    answers: list[Mapping[str, list[Mapping[str, Any]]]] = control.broadcast(
        HUNG_COMMAND, destination=asked, reply=True, timeout=within_s
    )
    for node, found in sorted(pair for answer in answers for pair in answer.items()):
        # A worker of another version answers that it does not know the command.
        yield from (hung_text(node, one) for one in found if isinstance(found, list))


def hung_text(node: str, hung: Mapping[str, Any]) -> str:
    """Say what hangs in a worker, and what to do."""
    at = f", at {hung['place']}" if hung["place"] else ""
    return (
        f"{node}: {hung['effect']} of {hung['record']} hangs for {age(hung['since_ms'])}, though"
        f" {hung['limit']} is its limit{at}: its record has gone on without it, and another thread"
        " took the place of the one that it keeps. Give what it waits for a time limit of its own;"
        f" start the worker anew to be rid of it. With {HUNG_MAX} such threads it ends by itself"
    )
