"""What an agent writes, kept within bounds: a log with both ends, and lines that wait to be read.

It never interprets a line.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path

LOG_BYTES_MIN = 4 * 1024
TAIL_BYTES_MAX = 16 * 1024
LINE_BYTES_MAX = 1024 * 1024
LINES_WAITING_MAX = 1_000
BYTES_WAITING_MAX = 4 * 1024 * 1024


class Log:
    """A file that keeps the first half and the last part of all that was written, in order.

    Where something is missing between the two, a line in the file says how much. Raises OSError if
    the file cannot be made.
    """

    def __init__(self, file: Path, *, bytes_max: int) -> None:
        assert bytes_max >= LOG_BYTES_MIN, "two ends and the line between them need some room"
        self.cut = False
        self._file = file.open("w+b", buffering=0)
        self._bytes_max = bytes_max
        self._size = self._seen = 0
        self._last = b""

    def write(self, chunk: bytes) -> None:
        """Add what came. A disk that is full loses it, and the log says that it is cut."""
        self._seen += len(chunk)
        self._last = (self._last + chunk)[-TAIL_BYTES_MAX:]
        try:
            if self._size + len(chunk) > self._bytes_max:
                self._cut(chunk)
            else:
                self._put(self._size, chunk)
        except OSError:
            self.cut = True

    def tail(self) -> str:
        """Return the last 16 KiB, as text that every log takes."""
        text = self._last.decode(errors="replace")
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}")

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            self._file.close()

    def _cut(self, chunk: bytes) -> None:
        half = self._bytes_max // 2
        room = max(0, half - self._size)
        self._put(self._size, chunk[:room])
        held = os.pread(self._file.fileno(), self._bytes_max, half) + chunk[room:]
        # A quarter stays, so that the next cut comes a quarter later and not with every chunk.
        last = held[-(self._bytes_max // 4) :]
        self.cut = True
        note = f"\n[... {self._seen - half - len(last)} bytes were cut here ...]\n"
        self._put(half, note.encode() + last)
        os.ftruncate(self._file.fileno(), self._size)

    def _put(self, offset: int, part: bytes) -> None:
        self._size = offset
        while part:
            written = os.pwrite(self._file.fileno(), part, self._size)
            self._size += written
            part = part[written:]


class Lines:
    """Complete lines that wait to be taken; when too many wait, whoever writes has to wait too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._begun = b""

    @property
    def full(self) -> bool:
        """Tell whether nothing more should be read for now."""
        return len(self._lines) >= LINES_WAITING_MAX or self._waiting_bytes >= BYTES_WAITING_MAX

    def write(self, chunk: bytes) -> bool:
        """Add what came; tell whether a line was completed."""
        *lines, rest = chunk.split(b"\n")
        with self._lock:
            for line in lines:
                self._add(self._begun + line)
                self._begun = b""
            # One byte over the limit is kept, so that who reads it sees that it is too long.
            self._begun = (self._begun + rest)[: LINE_BYTES_MAX + 1]
        return bool(lines)

    def end(self) -> None:
        """Take what has no end of line as a last line."""
        with self._lock:
            if self._begun:
                self._add(self._begun)
                self._begun = b""

    def take(self) -> list[bytes]:
        """Return the lines that wait, oldest first, without their ends."""
        with self._lock:
            taken = list(self._lines)
            self._lines.clear()
            self._waiting_bytes = 0
        return taken

    def _add(self, line: bytes) -> None:
        line = line[: LINE_BYTES_MAX + 1]
        self._lines.append(line)
        self._waiting_bytes += len(line)
