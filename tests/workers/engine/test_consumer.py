"""A worker, intake too, that starts or runs while its broker refuses begins when it accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import pytest
import redis

from interlock.workers.engine import refusals
from interlock.workers.engine.celery_app import INTAKE_QUEUE, make_app
from interlock.workers.gateways.server import EmbeddedServer, free_port
from tests.conftest import NewServer
from tests.servers import LOADS_SLOWLY, REFUSALS, loading, refusing
from tests.waiting import until
from tests.workers.engine.running import settings_for


@contextmanager
def refuses(why: str, server: EmbeddedServer) -> Iterator[None]:
    with redis.Redis.from_url(server.url) as client, refusing(client, why):
        yield


FAULTS: dict[str, Callable[[EmbeddedServer], AbstractContextManager[None]]] = {
    "is loading": loading,
    **{why: partial(refuses, why) for why in REFUSALS},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_consuming_waits_for_a_broker_that_refuses_and_says_so_once(
    new_server: NewServer,
    prefix: str,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(refusals, "POLL_S", 0.01)
    server = new_server(port=free_port(), settings=LOADS_SLOWLY)
    settings = settings_for(server.url, prefix).model_copy(update={"ack_emulation": True})
    app: Any = make_app(settings, (INTAKE_QUEUE,))
    consumer = app.WorkController(pool="solo").consumer

    with ThreadPoolExecutor(1) as thread:
        with FAULTS[fault](server):
            connecting = thread.submit(consumer.connect)
            until(lambda: "this process waits for the broker" in caplog.text, what="it says so")
            assert not connecting.done()
        connecting.result(60).close()

    assert caplog.text.count("this process waits") == 1
    assert caplog.text.count("does not refuse this process any more") == 1
