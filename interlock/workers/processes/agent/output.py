"""Keeps an agent's output within limits: a log with its beginning and end, and unread lines."""

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


class OutputLog:
    """A file with the beginning and the end of all that was written.

    If the middle was cut out, a line in the file gives the number of bytes. Raises OSError if the
    file cannot be made.
    """

    def __init__(self, file: Path, *, bytes_max: int) -> None:
        assert bytes_max >= LOG_BYTES_MIN, "beginning, end and the line between them need some room"
        self.cut = False
        self._file = file.open("w+b", buffering=0)
        self._bytes_max = bytes_max
        self._size = self._seen = 0
        self._last = b""

    def write(self, chunk: bytes) -> None:
        """Add a chunk of output. If the disk is full it is lost, and `cut` is set."""
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
        """Return the last 16 KiB as text that any log can hold."""
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
        after_half = os.pread(self._file.fileno(), self._bytes_max, half) + chunk[room:]
        # A quarter stays, so that the next cut is a quarter later and not at every chunk.
        last = after_half[-(self._bytes_max // 4) :]
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


class PendingLines:
    """Complete lines that are not read yet; if there are too many, the writer has to wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._partial = b""

    @property
    def full(self) -> bool:
        """Whether so many lines wait that no more output should be read for now."""
        return len(self._lines) >= LINES_WAITING_MAX or self._waiting_bytes >= BYTES_WAITING_MAX

    def write(self, chunk: bytes) -> bool:
        """Add a chunk of output; return whether it completed a line."""
        *lines, rest = chunk.split(b"\n")
        with self._lock:
            for line in lines:
                self._add(self._partial + line)
                self._partial = b""
            # One byte over the limit is kept, so that the reader sees that the line is too long.
            self._partial = (self._partial + rest)[: LINE_BYTES_MAX + 1]
        return bool(lines)

    def end(self) -> None:
        """Add the rest without a line end as the last line."""
        with self._lock:
            if self._partial:
                self._add(self._partial)
                self._partial = b""

    def take(self) -> list[bytes]:
        """Return the unread lines, oldest first, without their line ends."""
        with self._lock:
            taken = list(self._lines)
            self._lines.clear()
            self._waiting_bytes = 0
        return taken

    def _add(self, line: bytes) -> None:
        line = line[: LINE_BYTES_MAX + 1]
        self._lines.append(line)
        self._waiting_bytes += len(line)
