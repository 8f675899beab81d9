"""Gives a first span the trace that it shall begin. Imported only where traces are on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from interlock.kernel.record import root_of

_WANTED: ContextVar[int] = ContextVar("wanted trace", default=0)


class TraceIds(RandomIdGenerator):
    """Random ids, but for a span that begins within `beginning`."""

    def generate_trace_id(self) -> int:
        """Return the id of the trace that a span without a parent begins."""
        return _WANTED.get() or super().generate_trace_id()


@contextmanager
def beginning(trace_id: int) -> Iterator[None]:
    """Let a span that has no parent begin this trace, or go on with it beside other first spans."""
    before = _WANTED.set(trace_id)
    try:
        yield
    finally:
        _WANTED.reset(before)


def trace_of_family(record_id: str) -> int:
    """Return the trace of a record that was created in none: it is the same for its family."""
    return int(sha256(root_of(record_id).encode()).hexdigest()[:32], 16)
