"""The pipes between a supervisor and its agent: the prompt in; output, errors and reports out.

The supervisor is not blocked by an agent that reads nothing, writes without end or closes a pipe
early. The agent is blocked only while too many of its lines are unread.
"""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from interlock.workers.processes.agent.output import OutputLog, PendingLines

DRAIN_S_MAX = 2.0
_POLL_S = 1.0
_READ_BYTES = 64 * 1024
# A pipe holds 1 MiB at most, unless root raised the limit; one more read finds its end.
_REST_READS_MAX = 17


@dataclass(slots=True)
class _AgentPipe:
    """A pipe that the agent writes to, with the log and the lines that its bytes go to."""

    descriptor: int
    log: OutputLog | None
    lines: PendingLines | None
    open: bool = True


class Pipes:
    """The four pipes of one agent. `agent_ends` are stdin, stdout, stderr and reports."""

    def __init__(
        self, *, output: OutputLog, errors: OutputLog, prompt: bytes, more_follows: bool
    ) -> None:
        self.output, self.errors = output, errors
        self.reports, self.output_lines = PendingLines(), PendingLines()
        self.progress = time.monotonic()
        self.cut = False
        pairs = [os.pipe() for _ in range(5)]
        (stdin, self._input), *rest, (self._woken, self._wake) = pairs
        self.agent_ends = [stdin, *(agent_end for _, agent_end in rest)]
        sinks = (output, None), (errors, None), (None, self.reports)
        self._sources = [
            _AgentPipe(ours, *sink) for (ours, _), sink in zip(rest, sinks, strict=True)
        ]
        for descriptor in (self._input, self._wake):
            os.set_blocking(descriptor, False)
        self._lock = threading.Lock()
        self._pending, self._input_open, self._last = bytearray(prompt), True, not more_follows
        self._drain_until: float | None = None
        self._thread = threading.Thread(target=self._run, name="agent-pipes", daemon=True)

    def keep_output_lines(self) -> None:
        """Keep the lines of the output in `output_lines` as well; the caller has to take them."""
        self._sources[0].lines = self.output_lines

    def start(self) -> None:
        """Close the agent's ends, and serve the pipes in a thread from now on."""
        self.close_agent_ends()
        self._thread.start()

    def close_agent_ends(self) -> None:
        """Close our copies of the agent's ends."""
        while self.agent_ends:
            os.close(self.agent_ends.pop())

    def send(self, data: bytes, *, last: bool) -> bool:
        """Add to the agent's input; False if the input is closed, by us or by the agent."""
        with self._lock:
            if not self._input_open or self._last:
                return False
            self._pending += data
            self._last = last
        self._wake_thread()
        return True

    def take(self, lines: PendingLines) -> list[bytes]:
        """Return the unread lines, so that the agent can write more."""
        taken = lines.take()
        if taken:
            self._wake_thread()
        return taken

    def finish(self) -> None:
        """Read the rest from the pipes of an agent that has ended, and close everything."""
        self._drain_until = time.monotonic() + DRAIN_S_MAX
        if self._thread.ident is not None:
            self._wake_thread()
            self._thread.join()
        self.close_agent_ends()
        for source in self._sources:
            self._read_rest(source)
        # A process that is not the agent's may have been given a pipe and hold it open.
        self.cut = any(source.open for source in self._sources)
        for source in self._sources:
            self._close(source)
        self.reports.end()
        self.output_lines.end()
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
            reading = {each.descriptor: each for each in self._sources if self._wants(each)}
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

    def _wants(self, source: _AgentPipe) -> bool:
        full = source.lines is not None and source.lines.full
        return source.open and (not full or self._drain_until is not None)

    def _read(self, source: _AgentPipe) -> None:
        chunk = os.read(source.descriptor, _READ_BYTES)
        if not chunk:
            self._close(source)
            return
        completed = source.lines is not None and source.lines.write(chunk)
        if source.log is not None:
            source.log.write(chunk)
        if completed or source.log is not None:
            self.progress = time.monotonic()

    def _read_rest(self, source: _AgentPipe) -> None:
        """Read what an ended agent left in a pipe that the reading thread had no time to empty."""
        poller = select.poll()
        poller.register(source.descriptor, select.POLLIN)
        for _ in range(_REST_READS_MAX):
            if not source.open or not poller.poll(0):
                return
            self._read(source)

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

    def _wake_thread(self) -> None:
        with self._lock, suppress(BlockingIOError):
            if self._wake >= 0:
                os.write(self._wake, b"\0")

    @staticmethod
    def _close(source: _AgentPipe) -> None:
        if source.open:
            source.open = False
            os.close(source.descriptor)
