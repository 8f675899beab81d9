"""The runner: which effects it claims, and how it handles every end of a handler."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from structlog.contextvars import get_contextvars

from interlock.kernel.errors import FencedError, StoreDownError
from interlock.kernel.event import Note
from interlock.kernel.record import partition_of
from interlock.workers.engine import capability_call, effect_ends, time_limits
from interlock.workers.engine.retry_delay import retry_delay_ms
from interlock.workers.engine.sweeps import orphans
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.gateways.server import EmbeddedServer
from tests.conftest import NewProxy
from tests.end_to_end.deployment import thread
from tests.sweeping import sweeping
from tests.waiting import until
from tests.workers.engine.running import THREAD, Running, perform, settings_for

DONE = Outcome("execution_done", {"result": "well"})


@pytest.fixture
def running(server: EmbeddedServer, prefix: str) -> Running:
    return Running(settings_for(server.url, prefix))


def notes(running: Running, kind: str, record_id: str = "one") -> list[Note]:
    lines = running.client.history(record_id)
    return [line for line in lines if isinstance(line, Note) and line.kind == kind]


def test_a_message_that_names_no_effect_starts_nothing(running: Running) -> None:
    ran: list[EffectWork] = []
    lines = [
        perform(running.runner, THREAD, "execution", ran.append, key)
        for key in ("nobody:1.0:abc", "no effect", "")
    ]
    assert not ran
    rejected = "failure: rejected: thread.execution takes the id of one effect"
    assert lines == ["revoked: not claimed: gone", rejected, rejected]
    assert running.dispatch.rejected.counts() == {"wrong arguments": 2}


def test_lines_of_a_log_are_about_the_effect_while_it_is_performed(running: Running) -> None:
    version = running.approved().version
    seen: list[dict[str, object]] = []

    async def look(_: EffectWork) -> Outcome:
        seen.append(await asyncio.to_thread(get_contextvars))
        return DONE

    running.perform("one", look)

    assert seen == [{"record": "one", "version": version, "effect": "execution", "attempt": 1}]
    assert get_contextvars() == {}


def test_of_two_deliveries_at_once_one_runs(running: Running) -> None:
    running.approved()
    began, over = threading.Event(), threading.Event()

    def wait(_: EffectWork) -> Outcome:
        began.set()
        over.wait(180)
        return DONE

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(running.perform, "one", wait)
        began.wait(180)
        second = running.perform("one", wait)
        over.set()

    assert second.startswith("ignored: not claimed: held")
    assert first.result() == "execution_done -> done"


def test_a_handler_that_fails_is_tried_again_later_and_the_log_has_the_reason(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.approved()
    # An hour for each second: so the second try comes too early, however slow this computer is.
    monkeypatch.setattr(
        effect_ends, "retry_delay_ms", lambda effect, n: 3_600 * retry_delay_ms(effect, n)
    )

    def fail(_: EffectWork) -> Outcome:
        raise ValueError("a bug of ours")

    line = fail.__code__.co_firstlineno + 1
    said = f"retry: tried again in 60 min: ValueError: a bug of ours ({__file__}, line {line})"
    assert running.perform("one", fail) == said
    entry = running.entry("one")
    assert (entry.state, entry.attempts) == ("owed", 1)
    assert running.perform("one", fail).startswith("retry: not claimed: early")
    assert "a bug of ours" in notes(running, "effect_failed")[0].detail["detail"]


def test_an_async_handler_that_exits_ends_alone(running: Running) -> None:
    running.approved()
    running.approved(record_id="two")

    async def ends(_: EffectWork) -> Outcome:
        await asyncio.sleep(0)
        sys.exit("no more paper")

    async def goes_on(_: EffectWork) -> Outcome:
        await asyncio.sleep(0)
        return DONE

    assert "SystemExit: no more paper" in running.perform("one", ends)
    assert running.perform("two", goes_on) == "execution_done -> done"


def test_what_fails_and_may_not_start_again_ends_with_the_reason_of_its_failure(
    running: Running,
) -> None:
    running.approved("deadly_once")

    def fail(_: EffectWork) -> Outcome:
        raise ValueError("a bug of ours")

    running.perform("one", fail)
    orphans.run(sweeping(running.dispatch), partition_of("one"))

    failure = running.client.show("one").data["failure"]
    assert failure["code"] == "failed"
    assert "it failed while it was at work: ValueError: a bug of ours" in failure["detail"]


def test_the_name_of_a_file_that_is_not_utf8_is_noted_and_told(running: Running) -> None:
    name = b"caf\xe9".decode(errors="surrogateescape")

    def fail(work: EffectWork) -> Outcome:
        work.note("activity", {"reads": name})
        raise ValueError(name)

    running.approved()

    assert running.perform("one", fail).partition(" (")[0].endswith(r"ValueError: caf\xe9")
    assert notes(running, "activity")[0].detail["reads"] == r"caf\xe9"
    assert r"caf\xe9" in notes(running, "effect_failed")[0].detail["detail"]


def test_the_last_attempt_of_a_handler_that_fails_is_no_retry(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.approved()
    monkeypatch.setattr(effect_ends, "retry_delay_ms", lambda *_: 0)

    def fail(_: EffectWork) -> Outcome:
        raise ValueError("a bug of ours")

    lines = [running.perform("one", fail) for _ in range(THREAD.effects["execution"].attempts_max)]
    assert [line.partition(":")[0] for line in lines] == ["retry", "retry", "failure"]


def test_an_outcome_that_tells_of_a_failure_is_a_failure(running: Running) -> None:
    running.approved()
    failed = Outcome("execution_failed", {"code": "error", "detail": "no"}, reason="it is broken")

    line = running.perform("one", lambda _: failed)
    assert line == "failure: execution_failed -> awaiting_redirect: it is broken"


def test_an_effect_that_must_not_start_twice_is_not_tried_again_after_a_failure(
    running: Running,
) -> None:
    running.approved("jot_once")

    def fail(_: EffectWork) -> Outcome:
        raise ValueError("a bug of ours")

    assert running.perform("one", fail).startswith("failure: ValueError: a bug of ours (")
    again = "revoked: not claimed: it has begun once and may not start again"
    assert running.perform("one", fail) == again


def test_an_execution_that_fails_notes_its_end(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.approved()

    async def fail(*_: object, **__: object) -> None:
        raise ValueError("a bug of ours")

    monkeypatch.setattr(capability_call, "call_capability", fail)
    assert running.perform("one").startswith("retry: tried again in 1 s: ValueError")

    assert len(notes(running, "execution_started")) == 1
    end = notes(running, "execution_finished")[0].detail
    assert (end["success"], end["error"]) == (False, "failed")


def test_a_handler_that_ends_without_an_outcome_has_failed(running: Running) -> None:
    running.approved()

    assert "ended without an outcome" in running.perform("one", lambda _: None)
    assert running.entry("one").state == "owed"


def test_a_late_outcome_is_noted_with_its_cost_and_changes_nothing(
    running: Running,
) -> None:
    running.approved()

    def overtaken(_: EffectWork) -> Outcome:
        running.client.fire("one", "parent_force_close")
        return Outcome("execution_done", {"result": "late"}, {"spent": 7})

    assert running.perform("one", overtaken).startswith("stale")
    record = running.client.show("one")
    assert (record.state, record.counters["spent"]) == ("dismissed", 7)
    assert notes(running, "stale_result")[0].detail["trigger"] == "execution_done"
    assert not record.entries, "the holder has let go"


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_revoked_effect_is_stopped_within_a_renewal_and_confirmed_gone(
    running: Running, *, asynchronous: bool
) -> None:
    running.approved()
    began, ended = threading.Event(), threading.Event()

    async def sleep(_: EffectWork) -> Outcome:
        began.set()
        try:
            await asyncio.sleep(90)
        finally:
            ended.set()
        return DONE

    def loop(work: EffectWork) -> Outcome:
        began.set()
        try:
            until(work.stopped.is_set, what="the order to stop")
            work.raise_if_stopped()
        finally:
            ended.set()
        return DONE

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(running.perform, "one", sleep if asynchronous else loop)
        began.wait(180)
        running.client.fire("one", "parent_force_close")
        assert answer.result(60) == "stopped by order"

    assert ended.is_set()
    assert all(entry.name != "execution" for entry in running.client.show("one").entries)


def test_a_shutdown_gives_restartable_work_back_and_claims_no_more(running: Running) -> None:
    running.approved()
    began = threading.Event()

    async def sleep(_: EffectWork) -> Outcome:
        began.set()
        await asyncio.sleep(90)
        return DONE

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(running.perform, "one", sleep)
        began.wait(180)
        running.runner.shut_down()
        assert answer.result(60) == "retry: released at shutdown: owed"

    entry = running.entry("one")
    assert (entry.state, entry.attempts) == ("owed", 0)
    assert running.perform("one").startswith("retry: not claimed: this process ends")


def test_work_that_stops_because_it_was_lost_is_left_to_its_new_holder(running: Running) -> None:
    running.approved()

    def lose(work: EffectWork) -> Outcome:
        work.dispatch.leases.release(work.lease, counted=False)
        raise asyncio.CancelledError

    assert running.perform("one", lose) == "ignored: its lease is over"


def test_a_shutdown_lets_work_end_that_would_crash_its_state(running: Running) -> None:
    running.approved("jot_once")
    began, over = threading.Event(), threading.Event()

    def wait(_: EffectWork) -> Outcome:
        began.set()
        over.wait(180)
        return DONE

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(running.perform, "one", wait)
        began.wait(180)
        running.runner.shut_down()
        over.set()
        assert answer.result(60) == "execution_done -> done"


def test_a_store_that_is_away_costs_a_message_and_no_worker(
    server: EmbeddedServer, prefix: str, new_proxy: NewProxy
) -> None:
    proxy = new_proxy(server.port)
    running = Running(settings_for(proxy.url, prefix))
    running.approved()
    key = running.entry("one").key("one")
    proxy.refuse()

    line = perform(running.runner, THREAD, "execution", lambda _: DONE, key)
    assert line.startswith("retry: not claimed: the store does not answer")


def test_a_handler_whose_store_is_away_lets_its_lease_lapse(
    running: Running,
) -> None:
    running.approved()

    def lose(_: EffectWork) -> Outcome:
        raise StoreDownError("gone")

    assert running.perform("one", lose).startswith("retry: given up")
    assert running.entry("one").state == "leased"


def fenced_elsewhere(_: EffectWork) -> Outcome:
    raise FencedError("other", "token")


def test_a_commit_that_another_record_refuses_as_stale_is_a_failure_of_the_attempt(
    running: Running,
) -> None:
    running.approved()

    assert running.perform("one", fenced_elsewhere).startswith("retry: tried again in ")
    assert (running.entry("one").state, running.entry("one").attempts) == ("owed", 1)


def test_an_effect_of_a_transition_is_not_done_because_another_record_refuses_a_stale_commit(
    running: Running,
) -> None:
    running.client.submit(thread("jot", policy="plan_then_review"), machine="thread", id="one")
    until(
        lambda: running.perform("one", name="inference") and asks(running),
        what="a card is owed",
    )

    line = running.perform("one", fenced_elsewhere, name="resolution")

    assert line.startswith("retry: tried again in ")
    assert running.entry("one", "resolution").state == "owed"


def asks(running: Running) -> bool:
    return any(entry.name == "resolution" for entry in running.client.show("one").entries)


def test_a_lease_of_what_hangs_is_not_renewed_though_its_end_cannot_be_told(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.approved()
    effect = running.dispatch.effect
    monkeypatch.setattr(
        running.dispatch, "effect", lambda *names: replace(effect(*names), timeout_ms=50)
    )
    monkeypatch.setattr(time_limits, "STOP_S", 0.1)
    over, replaced = threading.Event(), threading.Event()
    monkeypatch.setattr(running.runner.limits, "on_hung", lambda *_: replaced.set())

    def fail(_: str) -> Outcome:
        raise ValueError("it cannot be told")

    def hang(work: EffectWork) -> Outcome:
        work.limit.outcome = fail
        over.wait(180)
        return DONE

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(running.perform, "one", hang)
        try:
            assert replaced.wait(20), "another thread takes the place of this one"
            assert running.runner.heartbeat.count() == 0
        finally:
            over.set()
        answer.result(60)


def test_the_runner_drops_finished_work(running: Running) -> None:
    running.approved()
    running.perform("one", lambda _: DONE)

    until(lambda: running.runner.heartbeat.count() == 0, what="no lease is held")
    assert not running.runner._working
