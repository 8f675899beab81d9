"""The command `interlock top`: reads snapshots and redraws the screen. It changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live

from interlock.kernel.errors import StoreError
from interlock.workers.client import Client
from interlock.workers.ops.top.screen import rendered
from interlock.workers.ops.top.snapshot import (
    Snapshot,
    SnapshotReader,
    snapshot_fields,
    snapshot_of,
)
from interlock.workers.terminal import screen
from interlock.workers.terminal.command import Shell, guarded
from interlock.workers.text import age

if TYPE_CHECKING:  # imported where it is opened
    from interlock.workers.remote.client import HttpClient

TICK_S = 0.2
PATIENCE_S = 3.0
ReadSnapshot = Callable[[], Snapshot]


@guarded
def top(
    shell: Shell,
    backlog: Annotated[str, typer.Option(help="Only this backlog.")] = "",
    once: Annotated[bool, typer.Option("--once", help="Print the state once, and exit.")] = False,
    interval: Annotated[
        float, typer.Option(min=0.2, max=3_600, help="Seconds between two updates.")
    ] = 2,
) -> None:
    """Watch agents, tasks and queues: one row for each claim. Ctrl-C ends it.

    AGE is the age of the claim, HB that of the last heartbeat, which says that the supervisor
    lives. OUT is how long ago the agent printed or reported something, DUE how much time is left
    until its deadline. TRY counts the retries that are used.
    """
    try:
        read = reading(shell.caller(), backlog)
        first = read()
        if shell.as_json:
            shell.answer(snapshot_fields(first), show=lambda _: [])
        elif once or not screen.out.is_terminal or screen.out.is_dumb_terminal:
            screen.out.print(rendered(first, width=screen.out.width, height=None))
        else:
            watch(read, first, screen.out, interval_s=interval)
    except KeyboardInterrupt:
        return


def reading(interlock: Client | HttpClient, backlog: str) -> ReadSnapshot:
    """Return what reads snapshots of the deployment that a client reaches."""
    if isinstance(interlock, Client):
        return SnapshotReader(interlock, backlog=backlog).read
    return lambda: interlock.api.parsed(snapshot_of, interlock.top(backlog))


def watch(read: ReadSnapshot, first: Snapshot, console: Console, *, interval_s: float) -> None:
    """Redraw the screen until interrupted. While the store is away, show the last snapshot."""
    answers: SimpleQueue[Snapshot | Exception] = SimpleQueue()
    # In a thread, because a call to a store that is away takes many seconds to fail.
    reading = threading.Thread(
        target=_keep_reading, args=(read, answers, interval_s), name="reading", daemon=True
    )
    snapshot, read_at, refusal = first, time.monotonic(), ""
    shown = (snapshot, "", console.size)
    with Live(
        _frame(console, *shown[:2]), console=console, screen=True, auto_refresh=False
    ) as live:
        reading.start()
        while True:
            match _next(answers):
                case Snapshot() as latest:
                    snapshot, read_at, refusal = latest, time.monotonic(), ""
                case StoreError() as error:
                    refusal = str(error)
                case Exception() as error:
                    raise error
            age_s = time.monotonic() - read_at
            trouble = ""
            if refusal or age_s > interval_s + PATIENCE_S:
                why = refusal or "the store does not answer"
                trouble = f"this screen is {age(age_s * 1_000)} old: {why}"
            if shown != (snapshot, trouble, console.size):
                shown = (snapshot, trouble, console.size)
                live.update(_frame(console, snapshot, trouble), refresh=True)


def _keep_reading(
    read: ReadSnapshot, answers: SimpleQueue[Snapshot | Exception], interval_s: float
) -> None:
    while True:
        time.sleep(interval_s)
        try:
            answers.put(read())
        except Exception as failure:  # noqa: BLE001 - the thread of the screen raises it
            answers.put(failure)


def _next(answers: SimpleQueue[Snapshot | Exception]) -> Snapshot | Exception | None:
    try:
        return answers.get(timeout=TICK_S)
    except Empty:
        return None


def _frame(console: Console, snapshot: Snapshot, trouble: str) -> Group:
    return rendered(snapshot, width=console.width, height=console.height, trouble=trouble)
