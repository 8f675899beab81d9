"""The pipes between a keeper and its agent: a prompt in; output, errors and reports out.

It never waits for the agent: one that reads nothing, writes without end or closes a pipe early
holds up nobody. Only unread lines make the agent wait.
"""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from interlock.workers.processes.agent.output import Lines, Log

DRAIN_S_MAX = 2.0
_POLL_S = 1.0
_READ_BYTES = 64 * 1024


@dataclass(slots=True)
class _Source:
    """A pipe that the agent writes to, and where what comes is put."""

    descriptor: int
    log: Log | None
    lines: Lines | None
    open: bool = True


class Pipes:
    """The four pipes of one agent. `theirs` are its ends: stdin, stdout, stderr, reports."""

    def __init__(self, *, output: Log, errors: Log, prompt: bytes, more_follows: bool) -> None:
        self.output, self.errors = output, errors
        self.reports, self.spoken = Lines(), Lines()
        self.progress = time.monotonic()
        self.cut = False
        pairs = [os.pipe() for _ in range(5)]
        (stdin, self._input), *rest, (self._woken, self._wake) = pairs
        self.theirs = [stdin, *(theirs for _, theirs in rest)]
        sinks = (output, None), (errors, None), (None, self.reports)
        self._sources = [_Source(ours, *sink) for (ours, _), sink in zip(rest, sinks, strict=True)]
        for descriptor in (self._input, self._wake):
            os.set_blocking(descriptor, False)
        self._lock = threading.Lock()
        self._pending, self._input_open, self._last = bytearray(prompt), True, not more_follows
        self._drain_until: float | None = None
        self._thread = threading.Thread(target=self._run, name="agent-pipes", daemon=True)

    def hear_output(self) -> None:
        """Keep the lines of the output in `spoken` as well; who asks for that has to take them."""
        self._sources[0].lines = self.spoken

    def start(self) -> None:
        """Let go of the agent's ends and carry on by itself from here."""
        self.close_theirs()
        self._thread.start()

    def close_theirs(self) -> None:
        """Close the agent's ends, which it has its own copies of."""
        while self.theirs:
            os.close(self.theirs.pop())

    def send(self, data: bytes, *, last: bool) -> bool:
        """Add to the agent's input; False if that is closed, by us or by the agent."""
        with self._lock:
            if not self._input_open or self._last:
                return False
            self._pending += data
            self._last = last
        self._rouse()
        return True

    def take(self, lines: Lines) -> list[bytes]:
        """Return the lines that wait, and let the agent write on."""
        taken = lines.take()
        self._rouse()
        return taken

    def finish(self) -> None:
        """Read what is left in the pipes of an agent that is gone, and close everything."""
        self._drain_until = time.monotonic() + DRAIN_S_MAX
        if self._thread.ident is not None:
            self._rouse()
            self._thread.join()
        self.close_theirs()
        # Who was handed a pipe and is not the agent's may still hold it open.
        self.cut = any(source.open for source in self._sources)
        for source in self._sources:
            self._close(source)
        self.reports.end()
        self.spoken.end()
        self.output.close()
        self.errors.close()
        with self._lock:
            self._close_input()
            os.close(self._wake)
            os.close(self._woken)
            self._wake = -1

    def _run(self) -> None:
        while not self._drained():
            poller = select.poll()
            poller.register(self._woken, select.POLLIN)
            reading = {one.descriptor: one for one in self._sources if self._wants(one)}
            for descriptor in reading:
                poller.register(descriptor, select.POLLIN)
            if self._writes():
                poller.register(self._input, select.POLLOUT)
            for descriptor, _ in poller.poll(_POLL_S * 1000):
                if descriptor == self._woken:
                    os.read(self._woken, _READ_BYTES)
                elif descriptor in reading:
                    self._read(reading[descriptor])
                else:
                    self._write()

    def _drained(self) -> bool:
        until = self._drain_until
        closed = not any(source.open for source in self._sources)
        return until is not None and (closed or time.monotonic() > until)

    def _wants(self, source: _Source) -> bool:
        full = source.lines is not None and source.lines.full
        return source.open and (not full or self._drain_until is not None)

    def _read(self, source: _Source) -> None:
        chunk = os.read(source.descriptor, _READ_BYTES)
        if not chunk:
            self._close(source)
            return
        completed = source.lines is not None and source.lines.write(chunk)
        if source.log is not None:
            source.log.write(chunk)
        if completed or source.log is not None:
            self.progress = time.monotonic()

    def _writes(self) -> bool:
        with self._lock:
            if self._last and not self._pending:
                self._close_input()
            return self._input_open and bool(self._pending)

    def _write(self) -> None:
        with self._lock:
            try:
                del self._pending[: os.write(self._input, self._pending[:_READ_BYTES])]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                self._close_input()

    def _close_input(self) -> None:
        if self._input_open:
            self._input_open = False
            self._pending.clear()
            os.close(self._input)

    def _rouse(self) -> None:
        with self._lock, suppress(BlockingIOError):
            if self._wake >= 0:
                os.write(self._wake, b"\0")

    @staticmethod
    def _close(source: _Source) -> None:
        if source.open:
            source.open = False
            os.close(source.descriptor)
