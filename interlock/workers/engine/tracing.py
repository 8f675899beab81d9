"""Spans of effects, sweeps and commands. Off, and without cost, unless traces are started.

Each effect that is performed is a span. The trace that it belongs to is that of its record: the one
in which the record was created, whose context the event of the creation keeps among its codes. A
record that was created in no trace has one that is made from the id of its family. Every other
event keeps the context in which it was fired too, and the span of an effect links to the one that
fired the event by which the record owes it: the effect, or the call, before it. The message of an
effect names the span in which it was sent, for other programs: workers read the record's events,
which also name the creation, and which are still there when a message was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.kernel.errors import KernelError
from interlock.kernel.event import Cause, Event
from interlock.kernel.record import Record
from interlock.kernel.store.leases import Lease
from interlock.kernel.store.views import Views
from interlock.workers.config import Settings
from interlock.workers.engine.trace_context import (
    Tracing,
    brief_traces,
    sent_traceparent,
)

if TYPE_CHECKING:  # imported where traces are on
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext

log = logging.getLogger(__name__)

T = TypeVar("T")
CODE = "trace:"  # before the context, in the codes of an event


def carried(settings: Settings, cause: Cause) -> Cause:
    """Return the cause of an event with the span that its call is made in, if there is one.

    A producer's own program sends no spans of Interlock, but its own span is kept where the
    settings say that traces are on.
    """
    span = sent_traceparent(settings)
    if not span or any(code.startswith(CODE) for code in cause.codes):
        return cause
    return replace(cause, codes=(*cause.codes, f"{CODE}{span}"))


@contextmanager
def traced_message(name: str, traceparent: str) -> Iterator[None]:
    """Act on a producer's message in a span of the trace that its header names, if there is one."""
    if Tracing.tracer is None:
        yield
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    context = _context(traceparent)
    parent = _below(context) if context else None
    with Tracing.tracer.start_as_current_span(name, context=parent, kind=SpanKind.CONSUMER):
        yield


@contextmanager
def traced(views: Views, record: Record, lease: Lease) -> Iterator[None]:
    """Perform an effect in a span of its record's trace. Its log lines say which trace that is."""
    if Tracing.tracer is None:
        yield
        return
    # A command that only reads does without Celery, which log_lines imports as well.
    from celery.exceptions import Ignore  # noqa: PLC0415
    from opentelemetry.context import Context  # noqa: PLC0415
    from opentelemetry.trace import Link, SpanKind, use_span  # noqa: PLC0415

    from interlock.workers.engine.log_lines import log_about  # noqa: PLC0415
    from interlock.workers.engine.trace_ids import beginning, trace_of_family  # noqa: PLC0415

    left: Exception | None = None
    origin, before = _origin(views, record.id, lease)
    about: dict[str, str | int] = {
        "interlock.record": record.id,
        "interlock.machine": record.machine,
        "interlock.state": record.state,
        "interlock.version": record.version,
        "interlock.effect": lease.name,
        "interlock.attempt": lease.attempt,
    }
    # Without a parent where there is none: receivers would wait for a span that nobody sends.
    with beginning(trace_of_family(record.id)):
        begun = Tracing.tracer.start_span(
            f"{record.machine}.{lease.name}",
            context=_below(origin) if origin else Context(),
            kind=SpanKind.CONSUMER,
            attributes=about,
            links=[Link(before)] if before else [],
        )
    trace_id = begun.get_span_context().trace_id
    with use_span(begun, end_on_exit=True), log_about(trace=f"{trace_id:032x}"):
        try:
            yield
        except Ignore as ignored:  # another process goes on with it: that is no failure
            left = ignored
            note_outcome(str(ignored))
    if left is not None:
        raise left


@contextmanager
def traced_sweep(name: str) -> Iterator[Callable[[str, Mapping[str, int]], None]]:
    """Run a sweep in a span of its own; what it yields takes the outcome and the numbers of items.

    What the sweep fires and creates is not below this span: it stays in the trace of its record.
    """
    if Tracing.tracer is None:
        yield lambda _outcome, _numbers: None
        return
    from opentelemetry.trace import StatusCode  # noqa: PLC0415

    span = Tracing.tracer.start_span(f"sweep.{name}", attributes={"interlock.sweep": name})

    def note(outcome: str, numbers: Mapping[str, int]) -> None:
        counted = {f"interlock.{name}": number for name, number in numbers.items()}
        span.set_attributes({"interlock.outcome": outcome, **counted})

    try:
        yield note
    except Exception as failure:
        span.record_exception(failure)
        span.set_status(StatusCode.ERROR, f"{type(failure).__name__}: {failure}")
        raise
    finally:
        span.end()


@contextmanager
def traced_command(name: str, settings: Settings) -> Iterator[None]:
    """Run a command that changes something in a span, below the one that the environment names."""
    with brief_traces(settings, "command", asks_models=False):
        if Tracing.tracer is None:
            yield
            return
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        with Tracing.tracer.start_as_current_span(name, kind=SpanKind.PRODUCER):
            yield


async def traced_tool(name: str, call: Callable[[], Awaitable[T]]) -> T:
    """Call a capability, in a span as the conventions for generative AI have it for a tool."""
    if Tracing.tracer is None:
        return await call()
    about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    with Tracing.tracer.start_as_current_span(f"execute_tool {name}", attributes=about):
        return await call()


def note_outcome(line: str) -> None:
    """Add to the span of the effect that is performed what became of it."""
    if Tracing.tracer is not None:
        from opentelemetry.trace import get_current_span  # noqa: PLC0415

        span: Span = get_current_span()
        span.set_attribute("interlock.outcome", line)


def _origin(
    views: Views, record_id: str, lease: Lease
) -> tuple[SpanContext | None, SpanContext | None]:
    """Return the span in which a record was created, and the one that made it owe an effect.

    The first is None where there is none, or where the store does not answer: work goes on without
    its trace. The second is None where it is the first, or was not traced.
    """
    owed_by = int(lease.suffix.partition(".")[0])
    try:
        events = views.events({(record_id, 1), (record_id, owed_by)})
    except KernelError as refusal:
        log.warning("the trace of %s cannot be read, so it gets another: %s", record_id, refusal)
        events = []
    found: dict[int, SpanContext | None] = {event.version: _kept(event) for event in events}
    created, before = found.get(1), found.get(owed_by)
    return created, before if before != created else None


def _kept(event: Event) -> SpanContext | None:
    """Return the span in which an event was made, if its codes have it."""
    codes = (code.removeprefix(CODE) for code in event.cause.codes if code.startswith(CODE))
    return next(filter(None, map(_context, codes)), None)


def _below(span: SpanContext) -> Context:
    """Return the context of what is done below a span of another process."""
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context  # noqa: PLC0415

    return set_span_in_context(NonRecordingSpan(span))


def _context(traceparent: str) -> SpanContext | None:
    """Return the context that a header `traceparent` holds, or None if it holds none."""
    from opentelemetry.propagate import extract  # noqa: PLC0415
    from opentelemetry.trace import get_current_span  # noqa: PLC0415

    carrier: dict[str, Any] = {"traceparent": traceparent}
    context = get_current_span(extract(carrier)).get_span_context()
    return context if context.is_valid else None
