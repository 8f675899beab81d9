"""The command `interlock top`: looks again and again, and keeps the screen. It changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from queue import Empty, SimpleQueue
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live

from interlock.kernel.errors import StoreError
from interlock.workers.ops.top.screen import drawn
from interlock.workers.ops.top.state import Picture, Top
from interlock.workers.terminal import screen
from interlock.workers.terminal.answer import AsJson, answer, client, guarded

TICK_S = 0.2
PATIENCE_S = 3.0
Look = Callable[[], Picture]


@guarded
def top(
    backlog: Annotated[str, typer.Option(help="Only this backlog.")] = "",
    once: Annotated[bool, typer.Option("--once", help="Print it once.")] = False,
    interval: Annotated[float, typer.Option(min=0.2, max=3_600, help="Seconds between looks.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Watch agents, tasks and queues: a line a claim; above, whether work flows. Ctrl-C ends it."""
    try:
        looks = Top(client(), backlog=backlog)
        first = looks.look()
        if as_json:
            answer(asdict(first), as_json=True, show=lambda _: None)
        elif once or not screen.out.is_terminal or screen.out.is_dumb_terminal:
            screen.out.print(drawn(first, width=screen.out.width, height=None))
        else:
            watch(looks.look, first, screen.out, interval_s=interval)
    except KeyboardInterrupt:
        return


def watch(look: Look, first: Picture, console: Console, *, interval_s: float) -> None:
    """Keep a screen until interrupted; what the store told last stays while it is away."""
    answers: SimpleQueue[Picture | Exception] = SimpleQueue()
    # Apart, as a store that is away is only given up after many seconds; the screen goes on.
    looking = threading.Thread(
        target=_look_on, args=(look, answers, interval_s), name="looking", daemon=True
    )
    picture, told_at, refusal = first, time.monotonic(), ""
    shown = (picture, "", console.size)
    with Live(
        _frame(console, *shown[:2]), console=console, screen=True, auto_refresh=False
    ) as live:
        looking.start()
        while True:
            match _next(answers):
                case Picture() as told:
                    picture, told_at, refusal = told, time.monotonic(), ""
                case StoreError() as told:
                    refusal = str(told)
                case Exception() as told:
                    raise told
            old_s = time.monotonic() - told_at
            trouble = ""
            if refusal or old_s > interval_s + PATIENCE_S:
                old = screen.age(int(old_s) * 1_000)
                trouble = f"this is {old} old: {refusal or 'the store does not answer'}"
            if shown != (picture, trouble, console.size):
                shown = (picture, trouble, console.size)
                live.update(_frame(console, picture, trouble), refresh=True)


def _look_on(look: Look, answers: SimpleQueue[Picture | Exception], interval_s: float) -> None:
    while True:
        time.sleep(interval_s)
        try:
            answers.put(look())
        except Exception as failure:  # noqa: BLE001 - raised by who keeps the screen
            answers.put(failure)


def _next(answers: SimpleQueue[Picture | Exception]) -> Picture | Exception | None:
    try:
        return answers.get(timeout=TICK_S)
    except Empty:
        return None


def _frame(console: Console, picture: Picture, trouble: str) -> Group:
    return drawn(picture, width=console.width, height=console.height, trouble=trouble)
