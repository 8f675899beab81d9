"""Measures 200 threads at once in one worker, each with a model call of one second."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from bench.asking import CALL_S, CALLS, MODEL, PATIENCE_S, QUESTION, alone_s
from bench.server import BenchServer, environment_of
from bench.workers import WorkerProcesses
from interlock.kernel.event import Event
from interlock.kernel.record import PARTITIONS
from interlock.workers.client import Client
from tests.fakes.openai_server import Asked, OpenAIServer, Reply, thinks

ANSWERED = "inference_done"
PAYLOAD = {
    "inciting": QUESTION.inciting,
    "policy": {"composition": "end_to_end", "combined_inference": True},
}
POLL_S = 0.1


def measure(server: BenchServer) -> dict[str, Any]:
    """Return the seconds from a full queue to the last answer in a log, and those of bare calls."""
    with OpenAIServer(otherwise=_slowly) as provider:
        bare_s = alone_s(provider.url)
    server.client.flushall()
    with OpenAIServer(otherwise=_slowly) as provider:
        settings = server.settings(
            concurrency=CALLS,
            model=MODEL,
            model_base_url=provider.url,
            model_api_key="no-secret",
        )
        client = Client(settings)
        ids = [client.submit(PAYLOAD, machine="thread").id for _ in range(CALLS)]
        held = list(server.client.scan_iter(_type="list", count=10_000))
        for name in held:
            server.client.rename(name, name + b":held")
        workers = WorkerProcesses(
            "bench.product",
            Path(mkdtemp(prefix="interlock-bench-")),
            environment_of(settings),
            processes=1,
            pool="threads",
            concurrency=CALLS,
        )
        with workers:
            warm = client.submit(PAYLOAD, machine="thread").id
            _until(lambda: _answered_ms(client, warm) > 0)
            started_ms = server.now_ms()
            for name in held:
                server.client.rename(name + b":held", name)
            _until(lambda: len(provider.asked) > CALLS and not _inferring(server, client))
        rmtree(workers.folder)
    ends = [_answered_ms(client, thread) for thread in ids]
    calls, answered = len(provider.asked), sum(end > 0 for end in ends)
    if (calls, answered) != (CALLS + 1, CALLS):
        raise RuntimeError(
            f"{calls} calls, {answered} answers of {CALLS}: some failed or were repeated"
        )
    return {
        "model_calls": CALLS,
        "model_call_s": CALL_S,
        "model_calls_bare_s": round(bare_s, 2),
        "model_calls_total_s": round((max(ends) - started_ms) / 1_000, 2),
    }


def _slowly(asked: Asked) -> Reply:
    return replace(thinks(asked), delay_s=CALL_S)


def _answered_ms(client: Client, record_id: str) -> int:
    lines = client.history(record_id)
    return max(
        (line.at_ms for line in lines if isinstance(line, Event) and line.trigger == ANSWERED),
        default=0,
    )


def _inferring(server: BenchServer, client: Client) -> int:
    keys, pipe = client.dispatch.keys, server.client.pipeline(transaction=False)
    states = [state for state in _states(client) if "infer" in state]
    for partition in range(PARTITIONS):
        for state in states:
            pipe.zcard(keys.state_index_of(partition, "thread", state))
    return int(sum(pipe.execute()))


def _states(client: Client) -> list[str]:
    return [str(stage.state) for stage in client.machines["thread"].stages]


def _until(done: Any) -> None:
    until = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > until:
            raise RuntimeError(f"not answered within {PATIENCE_S:g} s")
        time.sleep(POLL_S)
