"""One process of a deployment: it is started again when it has ended."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from itertools import filterfalse
from pathlib import Path

from interlock.kernel.errors import StoreError
from interlock.workers.text import one_line

PAUSE_S_MIN = 1.0
PAUSE_S_MAX = 60.0
TAIL_BYTES = 8_192
# How lines begin by which uvicorn, Celery and Flower say how things go.
IS_PROGRESS = re.compile(r"INFO:|\[[^]]*INFO/|\[I ")
IS_ERROR = re.compile(r"ERROR|CRITICAL|\[Errno|(Error|Exception): ")
NOTE = "interlock up: "  # begins a line that `up` itself writes into the log


@dataclass(slots=True)
class Part:
    """A process, and when it is started again. The pause doubles with each end."""

    name: str
    log: Path
    start: Callable[[], object]
    exit_code: Callable[[], int | None]
    started_at_s: float = 0.0
    pause_s: float = PAUSE_S_MIN
    due_at_s: float | None = None  # None while it runs

    def revive(self, now_s: float) -> str | None:
        """Start the process if it is due. Return a sentence if it has ended since the last call."""
        if self.due_at_s is None:
            code = self.exit_code()
            return None if code is None else self._postpone(now_s, f"ended with {exit_text(code)}")
        if now_s < self.due_at_s:
            return None
        self.started_at_s = now_s
        try:
            self.start()
        except (StoreError, OSError) as refusal:
            return self._postpone(now_s, f"does not start ({one_line(str(refusal))})")
        self.due_at_s = None
        return None

    def restart(self, now_s: float) -> str | None:
        """Start the process, which was ended on purpose. Return a sentence if it does not start."""
        self.due_at_s = now_s
        return self.revive(now_s)

    def _postpone(self, now_s: float, what: str) -> str:
        if now_s - self.started_at_s > PAUSE_S_MAX:
            self.pause_s = PAUSE_S_MIN
        notice = f"{self.name} {what}; it is started again in {self.pause_s:g} s"
        why = f"the last line of its log: {last_line(self.log)}"
        try:
            with self.log.open("a", encoding="utf-8") as log:
                log.write(f"{NOTE}{notice}\n")
        except OSError as refusal:
            why = f"{refusal.strerror}: {self.log} cannot be written"
        self.due_at_s = now_s + self.pause_s
        self.pause_s = min(2 * self.pause_s, PAUSE_S_MAX)
        return f"{notice}; {why}"


def exit_text(code: int) -> str:
    """Return an exit code in words, with the signal's name if a signal ended the process."""
    number = -code if code < 0 else code - 128
    try:
        return f"exit code {code} ({signal.Signals(number).name})"
    except ValueError:
        return f"exit code {code}"


def last_line(log: Path) -> str:
    """Return the last line of a log that says something, without the program's name before it.

    It is the error for which a process has ended, where that has only said afterwards that it ends.
    """
    try:
        with log.open("rb") as file:
            file.seek(-min(TAIL_BYTES, log.stat().st_size), 2)
            lines = file.read(TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError as refusal:
        return f"{refusal.strerror}: {log} cannot be read"
    lines = [line for line in lines if line.strip() and not line.startswith(NOTE)]
    said = lines[-1] if lines else "(it is empty)"
    before = next(filterfalse(IS_PROGRESS.match, reversed(lines)), "")
    if IS_ERROR.search(before):
        said = before
    return one_line(said.removeprefix("interlock: "))
