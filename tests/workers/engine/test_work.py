"""One claimed effect: each call counts once, and each order calls back once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest

from interlock.kernel.errors import FencedError
from interlock.kernel.event import Event, Note
from interlock.kernel.store.leases import Lease, Order
from interlock.workers.config import Settings, SettingsError
from interlock.workers.engine.work import EffectWork, Outcome, OverBudgetError
from interlock.workers.gateways.llm.language_model import LanguageModel, open_model
from interlock.workers.gateways.llm.outcome import Answered, Unanswered
from interlock.workers.gateways.server import EmbeddedServer
from tests.conftest import NewProxy
from tests.fakes.openai_server import OpenAIServer, Script, refuses, writes
from tests.fakes.proxy import FaultProxy
from tests.workers.engine.running import Running, settings_for

DONE = Outcome("execution_done", {"result": "well"}, {"spent": 5})


@pytest.fixture
def proxy(server: EmbeddedServer, new_proxy: NewProxy) -> FaultProxy:
    return new_proxy(server.port)


@pytest.fixture
def running(proxy: FaultProxy, prefix: str) -> Iterator[Running]:
    made = Running(settings_for(proxy.url, prefix))
    yield made
    made.dispatch.client.close()


def claimed(
    running: Running, capability: str = "jot", name: str = "execution", record_id: str = "one"
) -> EffectWork:
    """Claim an effect of a thread as the runner does."""
    if name == "execution":
        running.approved(capability)
    effect = running.dispatch.effect("thread", name)
    lease = running.dispatch.leases.claim(
        running.entry(record_id, name).key(record_id), effect, nonce="n", holder="test", schema=9
    )
    assert isinstance(lease, Lease), lease
    return EffectWork(running.dispatch, running.runner.resources, lease, asked_at=0)


def lines(running: Running, kind: str) -> int:
    found = running.client.history("one")
    return sum(
        (line.trigger if isinstance(line, Event) else line.kind) == kind
        for line in found
        if isinstance(line, Event | Note)
    )


def test_an_outcome_whose_reply_is_lost_counts_once(running: Running, proxy: FaultProxy) -> None:
    work = claimed(running)
    work.held.valid_until = 1e12
    proxy.lose_reply(b"execution_done")

    record = work.fire(DONE)

    assert proxy.replies_lost == 1
    assert record.state == "done"
    assert lines(running, "execution_done") == 1
    assert running.client.show("one").counters["spent"] == 5


def ask(work: EffectWork, spec: str, *script: Script) -> Answered[str] | Unanswered:
    """Ask a model once, as the handler of this work."""

    async def once(model: LanguageModel) -> Answered[str] | Unanswered:
        question = model.question("test", "", "?", answer=str, tokens_max=100)
        try:
            return await work.ask(question, timeout_s=60)
        finally:
            await model.close()

    with OpenAIServer(script, otherwise=refuses(418)) as server:
        model = open_model(Settings(model=spec, model_base_url=server.url, model_api_key="none"))
        assert model is not None
        return asyncio.run(once(model))


def test_what_a_question_may_cost_is_reserved_before_it_is_asked(running: Running) -> None:
    work = claimed(running)

    found = ask(work, "openai:gpt-4o-mini", writes("yes"))

    assert isinstance(found, Answered)
    assert found.answer == "yes"
    assert found.deltas == {"spent": 36, "tokens_in": 120, "tokens_out": 30}
    counters = running.client.show("one").counters
    assert counters["reserved.spent"] > 36
    assert "spent" not in counters


def test_an_unknown_price_is_refused_under_a_cap_and_counts_nothing_without_one(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = claimed(running)
    assert work.is_capped()

    with pytest.raises(SettingsError, match="set INTERLOCK_MODEL_PRICES=mine:7b=INPUT/OUTPUT"):
        ask(work, "mine:7b")
    monkeypatch.setattr(work, "is_capped", lambda: False)
    assert "spent" not in ask(work, "mine:7b", writes("yes")).deltas
    assert "reserved.spent" not in running.client.show("one").counters


def test_a_note_whose_reply_is_lost_is_written_once(running: Running, proxy: FaultProxy) -> None:
    work = claimed(running)
    work.held.valid_until = 1e12
    proxy.lose_reply(b"execution_started")

    work.note("execution_started", {"capability": "jot"})

    assert proxy.replies_lost == 1
    assert lines(running, "execution_started") == 1


def test_a_holder_that_lost_its_effect_may_audit_but_neither_note_nor_fire(
    running: Running,
) -> None:
    work = claimed(running)
    running.client.fire("one", "parent_force_close")

    with pytest.raises(FencedError):
        work.note("execution_started", {})
    with pytest.raises(FencedError):
        work.fire(DONE)
    work.audit("execution_finished", {"success": True})
    work.note_late(DONE)
    work.note_late(DONE)

    assert lines(running, "execution_finished") == 1
    assert lines(running, "stale_result") == 1
    assert running.client.show("one").counters["spent"] == 5


def test_an_outcome_that_comes_too_late_is_noted_and_its_effect_is_settled(
    running: Running,
) -> None:
    work = claimed(running)
    running.client.fire("one", "parent_force_close")
    assert running.client.show("one").entries

    assert work.fire_or_settle(DONE) is None

    record = running.client.show("one")
    assert (record.state, record.entries, record.counters["spent"]) == ("dismissed", (), 5)
    assert lines(running, "stale_result") == 1


def test_an_outcome_in_time_is_fired_and_not_settled(running: Running) -> None:
    work = claimed(running)
    work.held.valid_until = 1e12

    fired = work.fire_or_settle(DONE)

    assert fired is not None
    assert fired.state == "done"
    assert lines(running, "stale_result") == 0


def test_settling_publishes_the_effect_that_it_makes_due(
    server: EmbeddedServer, prefix: str
) -> None:
    running = Running(settings_for(server.url, prefix, INTERLOCK_ENQUEUE="plain"))
    parent = claimed(running)
    parent.held.valid_until = 1e12
    parent.fire(Outcome("decomposed", {"children": [{"title": "part"}]}))

    # No child was created, so the end of the spawn is the end of the countdown of children.
    assert claimed(running, name="spawn").settle() == "settled"

    assert running.dispatch.publisher.queue_length("cascade") == 1


def test_a_process_must_be_dead_before_the_grace_of_its_lease_is_over(running: Running) -> None:
    work = claimed(running)
    grace_s = work.effect.grace_ms / 1_000

    assert work.held.valid_until < work.kill_by < work.held.valid_until + grace_s


def test_a_repeated_order_calls_back_once(running: Running) -> None:
    work, called = claimed(running), []
    work.call_on_order(lambda: called.append(1))

    for _ in range(3):
        work._receive_order(Order.INTERRUPT, 1)
    for _ in range(3):
        work._receive_order(Order.STOP, 0)
    work._receive_order(Order.GO, 0)
    work._receive_order(Order.PAUSE, 0)

    assert len(called) == 2
    assert work.held.acknowledged == 1


def test_an_interrupt_reaches_the_handler_of_a_paused_record(running: Running) -> None:
    work, called = claimed(running), []
    work.call_on_order(lambda: called.append(1))
    heartbeat = running.runner.heartbeat
    with heartbeat.holding(work.held):
        running.client.pause("one")
        heartbeat.renew()
        assert not work.interrupted.is_set()
        running.client.cancel("one")
        for _ in range(2):
            heartbeat.renew()

    assert work.interrupted.is_set()
    assert (called, work.held.acknowledged) == ([1], 1)
    assert not work.stopped.is_set()


def test_a_callback_added_after_an_order_is_called_at_once(running: Running) -> None:
    work, called = claimed(running), []
    work._receive_order(Order.STOP, 0)

    work.call_on_order(lambda: called.append(1))

    assert called == [1]


def test_work_goes_on_until_it_is_ordered_to_stop(running: Running) -> None:
    work = claimed(running)
    work.raise_if_stopped()
    work.give_back()

    with pytest.raises(CancelledError):
        work.raise_if_stopped()


def test_a_carried_effect_is_not_restartable(running: Running) -> None:
    assert claimed(running, "jot").restartable


def test_an_action_that_may_run_once_is_not_restartable(running: Running) -> None:
    assert not claimed(running, "jot_once").restartable


def test_an_inference_is_restartable_until_it_has_begun(running: Running) -> None:
    running.client.submit({"inciting": {"title": "x"}}, machine="thread", id="one")
    work = claimed(running, name="inference")
    work.held.valid_until = 1e12

    assert work.restartable
    work.fire(Outcome("inference_started", {}))
    assert not work.restartable


def test_only_the_budget_of_the_policy_refuses_a_reservation(running: Running) -> None:
    policy: dict[str, Any] = {"composition": "end_to_end"}
    running.client.submit(
        {"inciting": {"title": "x"}, "policy": policy}, machine="thread", id="two"
    )
    claimed(running, name="inference", record_id="two").reserve(spent=101)
    policy |= {"budget_micro": 100}
    running.client.submit(
        {"inciting": {"title": "x"}, "policy": policy}, machine="thread", id="one"
    )
    work = claimed(running, name="inference")

    work.reserve(usd=0.00006)
    work.reserve(spent=100)  # it replaces what was reserved before
    with pytest.raises(OverBudgetError, match=r"^\$0\.00010 are needed, and \$0\.00010 of "):
        work.reserve(spent=101)
