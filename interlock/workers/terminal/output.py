"""The standard streams of a command, whose failures are told apart from those of other files.

It needs the standard library only: a command opens them before it imports anything else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper


class OutputError(Exception):
    """Standard output or error cannot be written."""

    def __init__(self, refusal: OSError) -> None:
        super().__init__(f"the output cannot be written: {refusal.strerror}")
        self.closed_by_reader = isinstance(refusal, BrokenPipeError)


class Output(TextIOWrapper):
    """Standard output or error. A character that its encoding lacks is written as an escape."""

    def write(self, text: str) -> int:
        """Write text. Raises OutputError."""
        try:
            return super().write(text)
        except OSError as refusal:
            raise OutputError(refusal) from refusal

    def flush(self) -> None:
        """Write what is buffered. Raises OutputError."""
        try:
            super().flush()
        except OSError as refusal:
            raise OutputError(refusal) from refusal


@contextmanager
def standard_streams() -> Iterator[None]:
    """Open the standard streams, and end the process in one sentence where they fail.

    A reader that has seen enough, such as `head`, is no failure.
    """
    sys.stdout, sys.stderr = _opened(sys.stdout, 1), _opened(sys.stderr, 2)
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OutputError as failure:
        if not failure.closed_by_reader:
            with suppress(OutputError):
                sys.stderr.write(f"error {failure}\n")
        _discard()
        sys.exit(0 if failure.closed_by_reader else 1)


def _opened(stream: object, descriptor: int) -> Output:
    if isinstance(stream, TextIOWrapper):
        encoding, by_line, at_once = stream.encoding, stream.line_buffering, stream.write_through
        return Output(
            stream.detach(),
            encoding=encoding,
            errors="backslashreplace",
            line_buffering=by_line,
            write_through=at_once,
        )
    # The caller has closed it. A file of ours that got its number would be written to by mistake,
    # so it is taken by one that refuses to be written.
    closed = os.open(os.devnull, os.O_RDONLY)
    if closed != descriptor:
        os.dup2(closed, descriptor)
        os.close(closed)
    return Output(os.fdopen(descriptor, "wb"))


def _discard() -> None:
    """Write nothing more: what is buffered would fail again at the end of the process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
