"""One thread with its parts reads as one trace, which the call that created it began."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, Tracer
from redis.backoff import NoBackoff
from redis.retry import Retry
from structlog.contextvars import get_contextvars
from typer.testing import CliRunner

from interlock.kernel.event import Cause, Event
from interlock.kernel.store.views import Views
from interlock.systems.jobs import attempt
from interlock.systems.jobs.machines.job.data import ExecutorData
from interlock.systems.tasks.machines.effects import AGENT, SUPERVISION
from interlock.workers.cli import app as command_line
from interlock.workers.config import Settings, SettingsError
from interlock.workers.engine import log_lines, trace_context
from interlock.workers.engine.records import Records
from interlock.workers.engine.sweeper import Sweep, register_sweeps
from interlock.workers.engine.trace_context import (
    Tracing,
    current_traceparent,
    span_variables,
    start_traces,
)
from interlock.workers.engine.trace_ids import TraceIds
from interlock.workers.engine.tracing import CODE, carried, traced, traced_command
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.gateways.capabilities.registry import Registry
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.supervision.launch import LaunchSpec
from interlock.workers.supervision.supervisor import Supervisor
from tests.end_to_end.deployment import thread
from tests.end_to_end.threads.capabilities import declared
from tests.systems.tasks.claims import claimed
from tests.waiting import until
from tests.workers.engine.running import Running, settings_for

DONE = Outcome("execution_done", {"result": "well"})
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def running(server: EmbeddedServer, prefix: str) -> Running:
    return Running(settings_for(server.url, prefix))


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tracer]:
    provider = TracerProvider(id_generator=TraceIds())
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(Tracing, "tracer", provider.get_tracer("test"))
    yield provider.get_tracer("test")
    provider.shutdown()


def codes_of(running: Running, record_id: str) -> tuple[str, ...]:
    first = running.client.history(record_id)[0]
    assert isinstance(first, Event)
    return first.cause.codes


def context_of(span: ReadableSpan) -> SpanContext:
    found = span.get_span_context()
    assert found is not None
    return found


def traceparent_of(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def sent_traceparents(client: redis.Redis, queue: str) -> list[str | None]:
    """Return the header `traceparent` of each message in a queue, the oldest first."""
    (name,) = (one for one in client.keys(f"{queue}*") if client.type(one) == b"list")
    messages = [json.loads(text) for text in reversed(client.lrange(name, 0, -1))]
    return [message["headers"].get("traceparent") for message in messages]


def trace_ids(found: tuple[ReadableSpan, ...]) -> set[int]:
    return {context_of(span).trace_id for span in found}


def test_every_effect_of_a_record_is_a_span_of_the_trace_that_created_it(
    running: Running, tracer: Tracer, spans: InMemorySpanExporter
) -> None:
    logged: list[dict[str, Any]] = []

    def look(_: EffectWork) -> Outcome:
        logged.append(get_contextvars())
        return DONE

    with tracer.start_as_current_span("order") as order:
        record = running.approved()
    running.perform("one", look)

    found = spans.get_finished_spans()
    expected = order.get_span_context()
    assert [span.name for span in found].count("thread.inference") == 3
    execution = next(span for span in found if span.name == "thread.execution")
    assert trace_ids(found) == {expected.trace_id}
    assert execution.parent is not None
    assert execution.parent.span_id == expected.span_id
    assert dict(execution.attributes or {}) == {
        "interlock.record": "one",
        "interlock.machine": "thread",
        "interlock.state": "executing",
        "interlock.version": record.version,
        "interlock.effect": "execution",
        "interlock.attempt": 1,
        "interlock.outcome": "execution_done -> done",
    }
    assert logged[0]["trace"] == f"{expected.trace_id:032x}"


@pytest.mark.usefixtures("tracer")
def test_the_call_of_a_capability_is_a_span_below_its_effect(
    running: Running,
    spans: InMemorySpanExporter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEPLOYMENT_FOLDER", str(tmp_path))  # where the capability writes
    running.approved()
    running.perform("one")

    found = {span.name: span for span in spans.get_finished_spans()}
    tool, execution = found["execute_tool jot"], found["thread.execution"]
    assert tool.parent is not None
    assert tool.parent.span_id == context_of(execution).span_id
    assert dict(tool.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "jot",
    }


@pytest.mark.usefixtures("tracer")
def test_a_capability_that_does_a_job_is_a_span_too(spans: InMemorySpanExporter) -> None:
    def wash() -> str:
        """Wash something."""
        return "clean"

    registry = Registry([declared("wash", wash, idempotent=True)])
    work: Any = SimpleNamespace(
        records=SimpleNamespace(capabilities=registry),
        record=SimpleNamespace(id="one"),
        lease=SimpleNamespace(token_number=1),
        key="one:1",
        call_on_order=lambda _: None,
    )
    executor: ExecutorData = {"capability": "wash", "parameters": {}, "cost_micro": 0}
    asyncio.run(attempt._run_capability(work, executor, "worker"))

    assert [span.name for span in spans.get_finished_spans()] == ["execute_tool wash"]


@pytest.mark.usefixtures("tracer")
def test_what_an_effect_creates_goes_on_in_its_trace(
    running: Running, spans: InMemorySpanExporter
) -> None:
    running.approved()

    def create(work: EffectWork) -> Outcome:
        work.dispatch.lifecycle.create("task", "b/part", {"title": "x"}, Cause("spawn"))
        return DONE

    running.perform("one", create)

    execution = next(span for span in spans.get_finished_spans() if span.name == "thread.execution")
    (code,) = codes_of(running, "b/part")
    assert code == f"{CODE}{traceparent_of(context_of(execution))}"


def test_the_span_of_an_effect_links_to_the_one_whose_outcome_made_it_due(
    running: Running, tracer: Tracer, spans: InMemorySpanExporter
) -> None:
    with tracer.start_as_current_span("order"):
        running.approved()
    running.perform("one", lambda _: DONE)

    found = [one for one in spans.get_finished_spans() if one.name.startswith("thread.")]
    links = [[link.context.span_id for link in span.links] for span in found]
    # The first effect is owed by the call that created the record, whose span is its parent.
    assert links == [[], *([context_of(span).span_id] for span in found[:-1])]


@pytest.mark.parametrize("enqueue", ["fused", "plain"])
def test_a_message_names_the_span_in_which_its_effect_became_due(
    server: EmbeddedServer,
    client: redis.Redis,
    prefix: str,
    tracer: Tracer,
    spans: InMemorySpanExporter,
    enqueue: str,
) -> None:
    running = Running(settings_for(server.url, prefix, INTERLOCK_ENQUEUE=enqueue))
    with tracer.start_as_current_span("order") as order:
        running.client.submit(thread("jot"), machine="thread", id="one")
    running.perform("one")
    running.client.submit(thread("jot"), machine="thread", id="two")

    first = next(span for span in spans.get_finished_spans() if span.name == "thread.inference")
    made_due_by = [order.get_span_context(), context_of(first)]
    assert sent_traceparents(client, f"{prefix}.inference") == [
        *map(traceparent_of, made_due_by),
        None,
    ]


@pytest.mark.usefixtures("spans")
def test_a_message_goes_on_in_the_trace_of_its_producer(
    server: EmbeddedServer,
    prefix: str,
    running: Running,
    tracer: Tracer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert tracer
    monkeypatch.setenv("INTERLOCK_STORE_URL", server.url)  # an app is made where it is imported
    assemble = import_module("interlock.workers.intake").assemble
    app = assemble(settings_for(server.url, prefix))
    task = app.tasks["interlock.submit"]
    for record_id, headers in (("one", {"traceparent": PARENT}), ("two", {})):
        task.push_request(id=record_id, **headers)  # as Celery reads the headers of a message
        task.run({"id": record_id, "payload": {"inciting": {"title": "Paper"}}})
        task.pop_request()

    ((one,), (two,)) = (codes_of(running, record_id) for record_id in ("one", "two"))
    assert one.split("-")[1] == PARENT.split("-")[1]
    assert one.split("-")[2] != PARENT.split("-")[2], "the span of intake is between them"
    assert two.split("-")[1] != PARENT.split("-")[1]


def test_a_record_that_was_created_in_no_trace_has_one_of_its_family(
    running: Running, tracer: Tracer, spans: InMemorySpanExporter
) -> None:
    assert tracer
    for record_id in ("one", "two"):
        running.approved(record_id=record_id)
    by_record: dict[str, set[int]] = {}
    for span in spans.get_finished_spans():
        assert span.parent is None, "a receiver would wait for a parent that nobody sends"
        record_id = str((span.attributes or {})["interlock.record"])
        by_record.setdefault(record_id, set()).add(context_of(span).trace_id)

    assert [len(ids) for ids in by_record.values()] == [1, 1]
    assert by_record["one"] != by_record["two"]
    assert codes_of(running, "one") == ()


def test_an_effect_that_fails_is_a_span_with_its_error(
    running: Running, tracer: Tracer, spans: InMemorySpanExporter
) -> None:
    assert tracer
    running.approved()

    def fail(_: EffectWork) -> Outcome:
        raise ValueError("a bug")

    running.perform("one", fail)

    (execution,) = (one for one in spans.get_finished_spans() if one.name == "thread.execution")
    assert not execution.status.is_ok
    assert "a bug" in str(execution.status.description)


@pytest.mark.usefixtures("tracer")
def test_an_effect_with_which_another_process_goes_on_has_not_failed(
    running: Running, spans: InMemorySpanExporter
) -> None:
    running.approved()

    def hand_over(work: EffectWork) -> None:
        work.handed_over.set()

    assert running.perform("one", hand_over).startswith("ignored: its supervisor goes on")

    (execution,) = (one for one in spans.get_finished_spans() if one.name == "thread.execution")
    assert execution.status.is_ok
    assert str((execution.attributes or {})["interlock.outcome"]).startswith("its supervisor")


@pytest.mark.usefixtures("tracer")
def test_what_a_supervisor_starts_is_below_the_task_and_not_below_its_agent(
    running: Running, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(log_lines, "_ALWAYS", {})
    claim = claimed(running.client, "b/one")
    seen: dict[str, str] = {}

    class Probe(Supervisor):
        machine, effect = "agent", SUPERVISION

        def run(self) -> None:
            seen.update(span_variables())

    spec = LaunchSpec(
        key=claim.agent.key, token=claim.agent.token, work_folder=str(tmp_path), worker="w"
    )
    probe = Probe(spec, running.client.records)
    probe.adopt("task", AGENT, claim.task.key, claim.task.token)
    probe.adopt("agent", SUPERVISION, spec.key, spec.token)
    probe.run_to_end()

    found = {span.name: traceparent_of(context_of(span)) for span in spans.get_finished_spans()}
    assert seen == {"TRACEPARENT": found["task.agent"]}
    assert found.keys() == {"task.agent", "agent.supervision"}


def test_nothing_is_kept_where_traces_are_off(
    running: Running, client: redis.Redis, prefix: str
) -> None:
    cause = Cause("ann")
    with TracerProvider().get_tracer("shop").start_as_current_span("order"):
        running.approved()
        assert carried(running.client.settings, cause) is cause

    assert codes_of(running, "one") == ()
    assert set(sent_traceparents(client, f"{prefix}.inference")) == {None}


def test_the_span_of_a_producers_own_program_is_that_of_the_creation(
    server: EmbeddedServer, prefix: str
) -> None:
    producer = Running(settings_for(server.url, prefix, INTERLOCK_TRACES="otlp"))
    with TracerProvider().get_tracer("shop").start_as_current_span("order") as order:
        producer.approved()
    producer.approved(record_id="two")

    span = traceparent_of(order.get_span_context())
    assert codes_of(producer, "one") == (f"{CODE}{span}",)
    assert codes_of(producer, "two") == ()


def test_a_sweep_is_a_span_with_what_it_saw_and_leaves_records_in_their_traces(
    running: Running, tracer: Tracer, spans: InMemorySpanExporter
) -> None:
    assert tracer
    app, found = Celery(set_as_current=False), [Counter(started=2, busy=1, refused=1)]

    def run(records: Records, _: int) -> Counter[str]:
        records.create("task", "b/part", {"title": "x"})
        return found.pop()

    register_sweeps(app, running.dispatch, (Sweep("test", lambda _: [0], run, periods=0),))
    assert app.tasks["sweep.test"]() == "1 busy, 1 refused, 2 started"
    with pytest.raises(IndexError):
        app.tasks["sweep.test"]()

    swept, failed = spans.get_finished_spans()
    assert (swept.name, dict(swept.attributes or {})) == (
        "sweep.test",
        {
            "interlock.sweep": "test",
            "interlock.seen": 4,
            "interlock.acted": 2,
            "interlock.failed": 1,
            "interlock.outcome": "1 busy, 1 refused, 2 started",
        },
    )
    assert not failed.status.is_ok
    assert codes_of(running, "b/part") == ()


@pytest.mark.usefixtures("tracer")
def test_a_command_that_changes_something_is_a_span_below_that_of_its_environment(
    running: Running,
    server: EmbeddedServer,
    prefix: str,
    spans: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running.client.submit(thread("jot"), machine="thread", id="one")
    for name, value in {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix}.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", value)
    monkeypatch.setenv("TRACEPARENT", PARENT)
    for words in (["show", "one"], ["cancel", "one"], ["task", "cancel", "two"]):
        CliRunner().invoke(command_line, words)

    cancelled, unknown = spans.get_finished_spans()
    assert (cancelled.name, unknown.name) == ("interlock cancel", "interlock task cancel")
    assert traceparent_of(context_of(cancelled)).split("-")[1] == PARENT.split("-")[1]
    assert not unknown.status.is_ok
    last = [line for line in running.client.history("one") if isinstance(line, Event)][-1]
    assert last.cause.codes == (f"{CODE}{traceparent_of(context_of(cancelled))}",)


def is_sending() -> bool:
    return "last spans" in {thread.name for thread in threading.enumerate()}


def test_a_command_waits_for_a_silent_receiver_for_a_short_time_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trace_context, "SEND_S", 0.01)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "http://{}:{}".format(*silent.getsockname())
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        with traced_command("interlock fire", Settings(traces="otlp")):
            assert current_traceparent()
        assert Tracing.tracer is None
        assert is_sending()
        with silent.accept()[0] as sending:
            sending.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            until(lambda: not is_sending(), what="the last spans are sent, and not sent again")


@pytest.mark.usefixtures("tracer")
def test_an_effect_is_performed_although_its_trace_cannot_be_read(
    running: Running, spans: InMemorySpanExporter
) -> None:
    claim = claimed(running.client, "b/one").agent
    away = Views(redis.Redis(port=9, retry=Retry(NoBackoff(), 0)), running.dispatch.keys)
    with traced(away, claim.record, claim):
        pass

    assert spans.get_finished_spans()[-1].name == "agent.supervision"


def test_an_installation_without_the_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, exporter, None)

    with pytest.raises(SettingsError, match=r"pip install 'interlock\[otel\]'"):
        start_traces(Settings(traces="otlp"), "worker")
