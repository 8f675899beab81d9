"""A job whose model has no known price: asked about under a limit of costs, never taken as free."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.systems.jobs.effects.worker import worker as run_worker
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.gateways.llm.language_model import open_model
from interlock.workers.gateways.server import EmbeddedServer
from tests.fakes.openai_server import OpenAIServer, says
from tests.races.in_process_worker import InProcessWorker

MODEL = "mine:7b"
LIMIT = {"limits": {"cost_micro": 100_000_000}}
WORKS = {"phases": [{"worker": {"model": "write"}}]}
# The fake reports 120 tokens of input and 30 of output; a million of each costs 10 and 100 dollars.
PRICE, COST_MICRO = "10/100", 4_200


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    """Return a model that does whatever it is asked to do."""
    with OpenAIServer(otherwise=says({"action": "COMPLETED", "summary": "done"})) as started:
        yield started


def worker_of(
    server: EmbeddedServer, prefix: str, home: Path, model: OpenAIServer, prices: str = ""
) -> InProcessWorker:
    """Return a worker that asks this model, whose price no public list has."""
    return InProcessWorker(
        server.url,
        prefix,
        home,
        INTERLOCK_MODEL=MODEL,
        INTERLOCK_MODEL_BASE_URL=model.url,
        INTERLOCK_MODEL_PRICES=prices,
    )


async def attempt(work: EffectWork) -> Outcome:
    """Run the worker of a job, and close the connections of its model."""
    try:
        return await run_worker(work)
    finally:
        model = work.resources.get(open_model)
        assert model is not None
        await model.close()


@pytest.mark.parametrize(("of_graph", "of_job"), [(LIMIT, {}), ({}, LIMIT)])
def test_under_a_limit_of_costs_a_person_is_asked_for_the_price_and_the_model_is_not(
    server: EmbeddedServer,
    prefix: str,
    tmp_path: Path,
    model: OpenAIServer,
    of_graph: dict[str, object],
    of_job: dict[str, object],
) -> None:
    worker = worker_of(server, prefix, tmp_path, model)
    worker.graphs.open("g", of_graph)
    worker.graphs.create("g/j", {**WORKS, **of_job}, held=False)

    worker.run_until_idle("g/j", worker=attempt)

    card = worker.client.card("g/j")
    assert card is not None
    assert card.kind == "intervention"
    assert f"set INTERLOCK_MODEL_PRICES={MODEL}=INPUT/OUTPUT" in card.question
    assert model.asked == []


@pytest.mark.parametrize(
    ("limits", "prices", "spent"),
    [({}, "", 0), (LIMIT, f"{MODEL}={PRICE}", COST_MICRO)],
)
def test_without_a_limit_or_with_a_price_the_model_is_asked(
    server: EmbeddedServer,
    prefix: str,
    tmp_path: Path,
    model: OpenAIServer,
    limits: dict[str, object],
    prices: str,
    spent: int,
) -> None:
    worker = worker_of(server, prefix, tmp_path, model, prices)
    worker.graphs.create("g/j", {**WORKS, **limits}, held=False)

    worker.run_until_idle("g/j", worker=attempt)

    record = worker.record("g/j")
    assert (record.state, record.counters.get("spent", 0)) == ("approval_required", spent)
    assert len(model.asked) == 1
