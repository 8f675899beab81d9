"""A process serves what it knows of itself, and a reader of that holds no work up."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from billiard.einfo import ExceptionInfo
from billiard.exceptions import WorkerLostError
from celery import Celery, _state
from celery.exceptions import Ignore
from kombu.message import Message
from kombu.serialization import dumps
from prometheus_client.parser import text_string_to_metric_families

from interlock.kernel.store.call_times import CallTimes
from interlock.workers.config import Settings
from interlock.workers.engine.celery_app import make_app
from interlock.workers.engine.effect_ends import EffectRetriedError
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops import process_metrics
from interlock.workers.ops.process_metrics import (
    CountedRequest,
    MetricsServer,
    ProcessMetrics,
    TaskCounts,
    serve_metrics,
    serve_metrics_of,
)
from tests.waiting import until
from tests.workers.engine.running import settings_for
from tests.workers.ops.test_metrics import PAGE, exposed_name

Serve = Callable[[ProcessMetrics], MetricsServer]
NAME = "worker@here"


def times_of(*ms: float) -> CallTimes:
    times = CallTimes("counts")
    for taken in ms:
        times.count("commit", 0.0, taken / 1_000)
    return times


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return a function that serves metrics at a port of its own, to the end of the test."""
    monkeypatch.setattr(process_metrics, "READER_S", 60.0)
    served: list[MetricsServer] = []

    def run(metrics: ProcessMetrics) -> MetricsServer:
        server = serve_metrics(Settings(metrics_address="0"), metrics)
        assert server is not None
        served.append(server)
        return server

    yield run
    for server in served:
        server.shutdown()
        server.server_close()


def address(server: MetricsServer) -> tuple[str, int]:
    return "127.0.0.1", server.server_port


def scraped(server: MetricsServer) -> dict[str, Any]:
    text = httpx2.get("http://{}:{}/metrics".format(*address(server)), timeout=180).text
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_the_page_lists_every_metric_of_a_process(serve: Serve) -> None:
    counts = TaskCounts()
    counts.begin("thread.inference")
    counts.end("thread.inference", "failed")
    found = scraped(serve(ProcessMetrics(NAME, times_of(0.2, 30), counts)))
    rows = re.findall(r"^\| `(interlock_process_\w+)` \| (\w+) \|([^|]*)\|", PAGE, re.MULTILINE)

    assert {(exposed_name(one), one.type) for one in found.values()} == {row[:2] for row in rows}
    labels = {name: set(re.findall(r"`(\w+)`", text)) for name, _, text in rows}
    for family in found.values():
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == labels[exposed_name(family)]
    waits = {sample.name: sample.value for sample in found[STORE].samples}
    assert (waits[f"{STORE}_count"], waits[f"{STORE}_sum"]) == (2, pytest.approx(0.03))


STORE = "interlock_process_store_call_seconds"


def test_a_worker_counts_the_tasks_at_work_and_how_the_others_ended(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(server.url, prefix, INTERLOCK_METRICS_ADDRESS="0")
    app = make_app(settings, ("one",))
    serve_metrics_of(app, settings, times_of())
    monkeypatch.setattr(_state, "default_app", app)  # as the command `celery worker` does
    begun, may_end = threading.Event(), threading.Event()

    def task(how: str) -> None:
        if how == "wait":
            begun.set()
            may_end.wait(180)
        elif how != "succeed":
            raise {"retry": EffectRetriedError("later"), "ignore": Ignore()}.get(how, ValueError())

    app.task(task, name="thread.one", shared=False)
    worker = app.WorkController(
        pool="threads", concurrency=2, without_mingle=True, without_gossip=True
    )
    thread = threading.Thread(target=worker.start)
    thread.start()
    try:
        for how in ("succeed", "retry", "ignore", "fail", "wait"):
            app.send_task("thread.one", [how])
        assert begun.wait(180)
        ends = {"succeeded": 1, "retried": 1, "ignored": 1, "failed": 1}
        expected = {("thread.one", outcome): number for outcome, number in ends.items()}
        until(lambda: app.task_counts.read() == ({"thread.one": 1}, expected), what="counts")
    finally:
        may_end.set()
        worker.stop()
        thread.join()


def test_a_task_that_fails_before_it_is_said_to_begin_does_not_run_now() -> None:
    app = Celery("counted", set_as_current=False)
    app.task_counts = TaskCounts()
    headers, properties, body, _ = app.amqp.as_task_v2("an-id", "celery.accumulate")
    content_type, encoding, content = dumps(body, "json")
    message = Message(content, None, content_type, encoding, headers=headers, properties=properties)
    request = CountedRequest(message, on_ack=lambda *_: None, app=app)
    try:
        raise WorkerLostError  # noqa: TRY301 - its traceback is a part of what Celery is told
    except WorkerLostError:
        request.on_failure(ExceptionInfo(), return_ok=True)

    assert app.task_counts.read() == (
        {"celery.accumulate": 0},
        {("celery.accumulate", "failed"): 1},
    )


def test_an_address_that_is_taken_is_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = Settings(metrics_address=str(port))

        assert serve_metrics(settings, ProcessMetrics(NAME, times_of())) is None
    assert f"at 127.0.0.1:{port}: [Errno 98] Address already in use by process" in caplog.text
    assert "; name another address in INTERLOCK_METRICS_ADDRESS" in caplog.text


def test_a_reader_that_asks_nothing_is_cut_off(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(ProcessMetrics(NAME, times_of()))
    with monkeypatch.context() as patch:
        patch.setattr(process_metrics, "READER_S", 0.02)
        silent = socket.create_connection(address(server))
        assert silent.recv(1) == b""
        silent.close()
    # It is no longer in the way of those that ask.
    assert "interlock_process_info" in scraped(server)
