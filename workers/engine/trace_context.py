"""The tracer of this process, and the span that it passes on to the processes that it starts.

Traces are off, and nothing of OpenTelemetry is imported, unless they are started.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interlock.workers.config import Settings, SettingsError

if TYPE_CHECKING:  # imported where traces are on
    from opentelemetry.trace import Tracer

# The environment variables that name a span to a process, as the W3C's headers name it to a server.
CONTEXT_VARIABLES = ("TRACEPARENT", "TRACESTATE", "BAGGAGE")


class Tracing:
    """The tracer of this process, or None where it makes no spans."""

    tracer: Tracer | None = None


def start_traces(settings: Settings, service: str) -> None:
    """Send the spans of this process where OTEL_EXPORTER_OTLP_ENDPOINT says, if traces are on.

    Raises SettingsError if the extra `otel` is not installed.
    """
    if settings.traces == "off":
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        problem = f"traces need {missing.name}: pip install 'interlock[otel]'"
        raise SettingsError(problem) from missing
    from opentelemetry.trace import set_tracer_provider  # noqa: PLC0415

    provider = TracerProvider(resource=Resource.create({"service.name": f"interlock-{service}"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    set_tracer_provider(provider)
    Tracing.tracer = provider.get_tracer("interlock")
    from interlock.workers.gateways.llm.spans import trace_model_calls  # noqa: PLC0415

    trace_model_calls()


def sent_traceparent(settings: Settings) -> str:
    """Return the span that this program is in, if traces are on, or ''."""
    if Tracing.tracer is None and settings.traces == "off":
        return ""
    return current_traceparent()


def current_traceparent() -> str:
    """Return the header `traceparent` of the span that this program is in, or '' outside of one.

    Imports nothing: a program that has begun a span has imported OpenTelemetry.
    """
    trace = sys.modules.get("opentelemetry.trace")
    context = trace.get_current_span().get_span_context() if trace else None
    if context is None or not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def span_variables() -> dict[str, str]:
    """Return the variables that name the span that this program is in to a process it starts.

    They are those of OpenTelemetry's specification for environment variables as carriers. There
    are none outside of a span, and none if traces are off.
    """
    if Tracing.tracer is None:
        return {}
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return {name.upper(): value for name, value in headers.items()}


@contextmanager
def span_of_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Make the spans of the block below the span that the variables name, if traces are on."""
    if Tracing.tracer is None:
        yield
        return
    from opentelemetry.context import attach, detach  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    headers = {name.lower(): variables[name] for name in CONTEXT_VARIABLES if name in variables}
    token = attach(TraceContextTextMapPropagator().extract(headers))
    try:
        yield
    finally:
        detach(token)
