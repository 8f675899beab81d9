"""The tracer of this process, and the span that it passes on to the processes that it starts.

Traces are off, and nothing of OpenTelemetry is imported, unless they are started.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING

from interlock.workers.config import Settings, SettingsError

if TYPE_CHECKING:  # imported where traces are on
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

log = logging.getLogger(__name__)

# So long a command, or the process of a codon, waits at its end until its spans have been sent.
SEND_S = 1.0
# The environment variables that name a span to a process, as the W3C's headers name it to a server.
CONTEXT_VARIABLES = ("TRACEPARENT", "TRACESTATE", "BAGGAGE")


class Tracing:
    """The tracer of this process, or None where it makes no spans."""

    tracer: Tracer | None = None


def start_traces(settings: Settings, service: str) -> None:
    """Send the spans of this process where OTEL_EXPORTER_OTLP_ENDPOINT says, if traces are on.

    The process ends when its last spans have been sent. Raises SettingsError if the extra `otel` is
    not installed.
    """
    if settings.traces != "off":
        _trace_libraries(_start_tracer(service, shutdown_on_exit=True))


@contextmanager
def brief_traces(settings: Settings, service: str, *, asks_models: bool) -> Iterator[None]:
    """Send the spans of the block, with which this process ends, as `start_traces` does.

    They are below the span that the environment names, that of the work which the process does. The
    program that started this process waits for its end, so the process waits for a receiver of
    spans for at most SEND_S; spans that have not been sent by then are lost. Raises SettingsError.
    """
    if settings.traces == "off" or Tracing.tracer is not None:
        with _span_of_environment(os.environ):
            yield
        return
    provider = _start_tracer(service, shutdown_on_exit=False)
    if asks_models:
        _trace_libraries(provider)
    try:
        with _span_of_environment(os.environ):
            yield
    finally:
        Tracing.tracer = None
        # The library has no limit of its own for this. A thread that is a daemon keeps no process.
        sender = Thread(target=provider.shutdown, name="last spans", daemon=True)
        sender.start()
        sender.join(SEND_S)
        if sender.is_alive():
            log.warning("spans may be lost: their receiver has not taken them in %g s", SEND_S)


def _start_tracer(service: str, *, shutdown_on_exit: bool) -> TracerProvider:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        from interlock.workers.engine.trace_ids import TraceIds  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        problem = f"traces need {missing.name}: pip install 'interlock[otel]'"
        raise SettingsError(problem) from missing
    resource = Resource.create({"service.name": f"interlock-{service}"})
    provider = TracerProvider(
        resource=resource, shutdown_on_exit=shutdown_on_exit, id_generator=TraceIds()
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    Tracing.tracer = provider.get_tracer("interlock")
    return provider


def _trace_libraries(provider: TracerProvider) -> None:
    """Let the libraries that call models, and that of the API, make spans too."""
    from opentelemetry.trace import set_tracer_provider  # noqa: PLC0415

    set_tracer_provider(provider)
    if find_spec("pydantic_ai"):  # not every deployment has models
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
def _span_of_environment(variables: Mapping[str, str]) -> Iterator[None]:
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
