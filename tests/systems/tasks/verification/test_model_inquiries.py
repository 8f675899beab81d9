"""The cost of a model call is reserved before it, and booked however the call ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from interlock.systems.tasks.verification.judge_model import InquiryKind, open_judge
from interlock.systems.tasks.verification.model_inquiries import ModelInquiries
from interlock.systems.tasks.verification.model_verdict import UnansweredError
from interlock.workers.engine.work import EffectWork
from interlock.workers.gateways.server import EmbeddedServer
from tests.fakes.openai_server import OpenAIServer, hangs, refuses, writes
from tests.workers.engine.running import Running, settings_for
from tests.workers.engine.test_work import claimed

MODEL = "openai:gpt-4o-mini"
Start = Callable[..., EffectWork]


@pytest.fixture
def provider() -> Iterator[OpenAIServer]:
    with OpenAIServer(otherwise=refuses(418)) as server:
        yield server


@pytest.fixture
def start(server: EmbeddedServer, prefix: str, provider: OpenAIServer) -> Iterator[Start]:
    """Return a function that claims an effect of a record with a budget."""
    opened: list[Running] = []

    def start(cap: int, **more: str) -> EffectWork:
        settings = {"INTERLOCK_MODEL_BASE_URL": provider.url, "INTERLOCK_JUDGE_MODEL": MODEL}
        running = Running(settings_for(server.url, prefix, **(settings | more)))
        opened.append(running)
        policy = {"composition": "end_to_end", "budget_micro": cap}
        running.client.submit(
            {"inciting": {"title": "x"}, "policy": policy}, machine="thread", id="one"
        )
        return claimed(running, name="inference")

    yield start
    for running in opened:
        running.dispatch.client.close()


async def ask(inquiries: ModelInquiries) -> Any:
    ask_model = inquiries.question(InquiryKind.REVIEW, task="fix it", changes="+a\n")
    assert ask_model is not None
    return await ask_model("is it good?")


def run(work: EffectWork, action: Coroutine[Any, Any, Any]) -> Any:
    """Run in a new event loop, and close the model's connections at the end."""

    async def closing() -> Any:
        try:
            return await action
        finally:
            judge = work.resources.get(open_judge)
            assert judge is not None
            await judge.close()

    return asyncio.run(closing())


def counters(work: EffectWork) -> tuple[int, int]:
    found = work.dispatch.views.record(work.record.id).counters
    return found.get("tree.spent", 0), found.get("reserved.spent", 0)


def test_each_call_is_reserved_before_it_and_its_cost_is_counted_after_it(
    start: Start, provider: OpenAIServer
) -> None:
    work = start(1_000_000)
    provider.then(writes("PASS"), writes("FAIL"))
    held = []

    async def twice() -> None:
        for _ in range(2):
            await ask(ModelInquiries(work))
            held.append(counters(work))

    run(work, twice())

    assert [spent for spent, _ in held] == [36, 72]
    assert held[0][1] == held[1][1] > 0, "each call reserves what it may cost, and no more"
    found = work.dispatch.views.record(work.record.id).counters
    assert (found["tokens_in"], found["tokens_out"]) == (240, 60)


def test_a_call_beyond_the_budget_is_not_made(start: Start, provider: OpenAIServer) -> None:
    provider.then(writes("PASS"))
    work = start(1_000_000)
    other = 1_000_000 - 1_000

    async def twice() -> None:
        inquiries = ModelInquiries(work)
        await ask(inquiries)
        await asyncio.to_thread(partial(work.spend, spent=other))
        with pytest.raises(UnansweredError, match=r"may cost \$0\.00\d+, more than"):
            await ask(inquiries)

    run(work, twice())

    assert len(provider.asked) == 1
    assert counters(work)[0] == other + 36


def test_under_a_cap_a_judge_without_a_known_price_is_not_asked(
    start: Start, provider: OpenAIServer
) -> None:
    work = start(1_000_000, INTERLOCK_JUDGE_MODEL="mine:7b")

    async def once() -> None:
        with pytest.raises(UnansweredError, match="set INTERLOCK_MODEL_PRICES=mine:7b=INPUT"):
            await ask(ModelInquiries(work))

    run(work, once())

    assert provider.asked == []


def test_the_possible_cost_of_a_cancelled_call_is_booked(
    start: Start, provider: OpenAIServer
) -> None:
    provider.then(hangs())
    work = start(1_000_000)

    async def cancel() -> None:
        task = asyncio.create_task(ask(ModelInquiries(work)))
        await asyncio.to_thread(provider.was_asked.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(work, cancel())

    assert counters(work)[0] > 0


def test_a_failure_of_the_provider_is_reported_and_costs_nothing(
    start: Start, provider: OpenAIServer
) -> None:
    work = start(1_000_000)

    async def refused() -> None:
        with pytest.raises(UnansweredError, match="refused with status 418"):
            await ask(ModelInquiries(work))

    run(work, refused())

    assert len(provider.asked) == 1
    assert counters(work)[0] == 0


def test_the_inference_model_judges_if_no_judge_is_configured(start: Start) -> None:
    work = start(1, INTERLOCK_JUDGE_MODEL="", INTERLOCK_MODEL="openai:gpt-4o")
    judge = work.resources.get(open_judge)
    assert judge is not None
    assert judge.name == "openai:gpt-4o"


def test_the_embedded_model_cannot_judge(start: Start) -> None:
    none = {"INTERLOCK_JUDGE_MODEL": "", "INTERLOCK_MODEL": "embedded:wordllama"}
    inquiries = ModelInquiries(start(1, **none))

    assert not inquiries.available
    assert inquiries.question(InquiryKind.REVIEW, task="", changes="") is None
