"""The timeout of a step: a limit of one attempt, after which the attempt has failed."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from typing import Literal

import pytest

from interlock import Data, Work, Workflow, seconds
from interlock.kernel.event import Note
from interlock.workers.engine import time_limits
from interlock.workers.engine.attempt_limit import AttemptLimit, TookTooLongError
from interlock.workers.engine.work import EffectWork
from tests.waiting import until
from tests.workflow.at_work import AtWork, Start

LIMIT = seconds(0.2)
WAIT_S = 60.0


class Job(Data):
    runs: int = 0


class Held:
    """What steps wait for; it goes on at the end of the test."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.threads: list[threading.Thread] = []
        self.begun: list[str] = []
        self.went_on: list[str] = []

    def wait(self, record_id: str) -> None:
        """Wait, and look at no order to stop."""
        self.begun.append(record_id)
        self.go_on.wait(WAIT_S)
        self.went_on.append(record_id)

    def perform(self, worker: AtWork, record_id: str) -> threading.Thread:
        """Let a thread of its own perform a step, as that of a worker."""
        thread = threading.Thread(target=worker.perform, args=(record_id,), daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    def end(self) -> None:
        """Let all go on, and wait for their ends."""
        self.go_on.set()
        for thread in self.threads:
            thread.join(WAIT_S)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Return what steps wait for that do not stop, and so hang at once when their time is over."""
    monkeypatch.setattr(time_limits, "STOP_S", 0.1)
    held = Held()
    yield held
    held.end()


def failures(worker: AtWork, record_id: str) -> list[str]:
    lines = worker.client.history(record_id)
    notes = [line for line in lines if isinstance(line, Note) and line.kind == "effect_failed"]
    return [str(note.detail["detail"]) for note in notes]


def asked(worker: AtWork, record_id: str) -> str:
    """Let sweeps look until a person is asked, and return the question."""

    def found() -> str:
        worker.sweep(record_id)
        return " ".join(card.question for card in worker.client.cards_of(record_id))

    return str(until(found, what=f"{record_id} asks a person"))


def test_a_step_that_does_not_stop_gives_its_record_back_and_its_late_end_is_refused(
    at_work: Start, held: Held
) -> None:
    flow = Workflow("hanging", Job)

    @flow.step(timeout=LIMIT, max_attempts=1)
    def hang(j: Job, work: Work) -> Literal["done"]:
        held.wait(work.id)
        j.runs += 1
        return "done"

    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Job(), id="one")

    held.perform(worker, "one")
    question = asked(worker, "one")

    assert "it took longer than 0.2 s, and does not stop; it is at" in question
    assert "test_timeouts.py, line" in question, "it says where"
    [hung] = worker.runner.limits.hung()
    assert (hung["record"], hung["effect"], hung["limit"]) == ("one", "hanging.hang", "0.2 s")
    assert worker.runner.heartbeat.count() == 0, "nothing renews its lease"
    held.end()
    assert worker.lines == ["stale: to_done came after the lease was lost"]
    assert worker.client.show("one").data["runs"] == 0
    assert worker.runner.limits.hung() == []


def test_a_step_that_looks_too_late_whether_it_shall_stop_changes_nothing(
    at_work: Start, held: Held
) -> None:
    flow = Workflow("late", Job)

    @flow.step(timeout=LIMIT, max_attempts=1)
    def look(_: Job, work: Work) -> Literal["done"]:
        held.wait(work.id)
        work.raise_if_stopped()
        return "done"

    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Job(), id="one")
    held.perform(worker, "one")
    asked(worker, "one")

    held.end()

    assert worker.lines == ["ignored: its lease is over"]
    assert len(failures(worker, "one")) == 1


def test_a_step_that_looks_whether_it_shall_stop_ends_and_is_tried_again(at_work: Start) -> None:
    flow = Workflow("looking", Job)

    @flow.step(timeout=LIMIT, max_attempts=2, retry_delay=seconds(0.001))
    def look(j: Job, work: Work) -> Literal["done"]:
        j.runs = work.attempt
        while work.attempt == 1:
            work.raise_if_stopped()
            time.sleep(0.01)
        return "done"

    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Job(), id="one")

    assert worker.reach("one", "done").data["runs"] == 2
    assert failures(worker, "one") == ["it took longer than 0.2 s"]


@pytest.mark.parametrize("why", ["it took longer than 0.2 s", "ValueError: always"])
def test_a_step_that_never_ends_well_asks_a_person_whose_card_stays(
    at_work: Start, why: str
) -> None:
    flow = Workflow("slow", Job)
    runs: list[int] = []

    @flow.step(timeout=LIMIT, max_attempts=3, retry_delay=seconds(0.001))
    async def sleep(_: Job, work: Work) -> Literal["done"]:
        runs.append(work.attempt)
        if "always" in why:
            raise ValueError("always")
        await asyncio.sleep(WAIT_S)
        return "done"

    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Job(), id="one")

    def given_up() -> bool:
        worker.work("one")
        worker.sweep("one")
        return bool(worker.client.cards_of("one"))

    until(given_up, what="a person is asked")

    assert runs == [1, 2, 3]
    version = worker.client.show("one").version
    until(lambda: worker.client.dispatch.views.now_ms() > limit_over(worker), what="time passes")
    worker.sweep("one")
    assert (worker.client.show("one").version, runs) == (version, [1, 2, 3])
    [card] = worker.client.cards_of("one")
    assert why in card.question
    assert [timer.name for timer in worker.client.show("one").timers] == ["quarantine"]


def limit_over(worker: AtWork) -> int:
    """Return when three limits have passed since the last attempt."""
    return worker.client.history("one")[-1].at_ms + 3 * 200


def test_a_step_that_may_be_done_once_asks_whether_it_was_done(at_work: Start, held: Held) -> None:
    flow = Workflow("once_slow", Job)

    @flow.step(once=True, timeout=LIMIT)
    def pay(_: Job, work: Work) -> Literal["done"]:
        held.wait(work.id)
        return "done"

    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Job(), id="one")

    held.perform(worker, "one")
    question = asked(worker, "one")

    assert worker.client.show("one").state == "pay_unclear"
    assert "it took longer than 0.2 s, and does not stop" in question
    assert "lost" not in question
    held.end()
    assert worker.client.show("one").state == "pay_unclear", "its late end is refused"


@pytest.mark.parametrize("begins", [True, False])
def test_only_what_has_begun_is_unclear_if_a_step_takes_too_long(
    at_work: Start,
    held: Held,
    begins: bool,  # noqa: FBT001
) -> None:
    flow = Workflow("marking", Job)

    @flow.step(timeout=LIMIT)
    def pay(_: Job, work: Work) -> Literal["done"]:
        if begins:
            work.once("transfer", held.wait, work.id)
        else:
            held.wait(work.id)
            work.once("transfer", held.wait, work.id)
        return "done"

    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Job(), id="one")

    held.perform(worker, "one")

    if begins:
        assert "(transfer: it took longer than 0.2 s" in asked(worker, "one")
    until(worker.runner.limits.hung, what="it is written off")
    until(lambda: worker.entries("one")[:1] != [] or begins, what="it is given back")
    state = "pay_unclear" if begins else "pay"
    until(lambda: worker.client.show("one").state == state, what=f"it is {state}")
    held.end()
    assert held.begun == ["one"], "the late thread begins nothing"


def test_a_handler_that_ends_without_an_outcome_when_it_shall_stop_has_failed(
    at_work: Start,
) -> None:
    flow = Workflow("quiet", Job)

    @flow.step(timeout=LIMIT)
    def stop(_: Job) -> Literal["done"]:
        return "done"

    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Job(), id="one")

    def quiet(work: EffectWork) -> None:
        until(work.stopped.is_set, what="it is ordered to stop")

    assert worker.perform("one", quiet).startswith("retry: tried again in 1 s: it took longer")


def test_a_record_that_hangs_keeps_no_slot_from_others(at_work: Start, held: Held) -> None:
    flow = Workflow("narrow", Job)

    @flow.step(timeout=LIMIT, max_attempts=1, concurrency=1)
    def hang(_: Job, work: Work) -> Literal["done"]:
        if work.id == "bad":
            held.wait(work.id)
        return "done"

    flow.ends(done=True)
    worker = at_work(flow)
    for name in ("bad", "good"):
        worker.client.submit(flow, Job(), id=name)
    held.perform(worker, "bad")
    until(lambda: held.begun, what="it hangs")
    assert "slot" in worker.perform("good")

    until(lambda: not worker.runner._working, what="it is written off")

    assert worker.work("good").state == "done"
    assert held.went_on == []


def test_what_is_done_after_an_end_has_a_limit_too() -> None:
    flow = Workflow("cleaning", Job)
    flow.wait("waiting", over="done", timeout=seconds(1), on_timeout="done")

    @flow.at_end("done")
    def clean(_: Job) -> None:
        pass

    flow.ends(done=True)

    assert flow.machine.effects["after_done"].timeout_ms == 3_600_000


@pytest.mark.parametrize("once", [True, False])
def test_the_time_in_the_queue_does_not_count(at_work: Start, once: bool) -> None:  # noqa: FBT001
    flow = Workflow("queued", Job)

    @flow.step(once=once, timeout=LIMIT)
    def pay(_: Job) -> Literal["done"]:
        return "done"

    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Job(), id="one")
    until(lambda: worker.client.dispatch.views.now_ms() > limit_over(worker), what="time passes")

    worker.sweep("one")

    assert worker.client.show("one").version == 1
    assert worker.work("one").state == "done"


def test_a_handler_that_holds_up_the_event_loop_holds_up_no_later_one(
    at_work: Start, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interlock.workers.engine import event_loop  # noqa: PLC0415

    monkeypatch.setattr(event_loop, "ANSWER_S", 0.1)
    flow = Workflow("blocking", Job)

    @flow.step(timeout=seconds(1), max_attempts=1)
    async def block(_: Job, work: Work) -> Literal["done"]:
        if work.id == "bad":
            held.wait(work.id)
        return "done"

    flow.ends(done=True)
    worker = at_work(flow)
    for name in ("bad", "good"):
        worker.client.submit(flow, Job(), id=name)

    thread = held.perform(worker, "bad")
    thread.join(WAIT_S)

    assert not thread.is_alive(), "its thread is given back though it goes on"
    assert worker.work("good").state == "done"
    assert "it took longer than 1 s" in asked(worker, "bad")


def test_a_handler_that_holds_up_the_event_loop_keeps_none_of_those_beside_it(
    at_work: Start, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interlock.workers.engine import event_loop  # noqa: PLC0415

    monkeypatch.setattr(event_loop, "ANSWER_S", 0.1)
    began: list[tuple[str, int]] = []
    flow = Workflow("beside", Job)

    @flow.step(timeout=seconds(1), max_attempts=1)
    async def block(_: Job, work: Work) -> Literal["done"]:
        held.wait(work.id)
        return "done"

    flow.ends(done=True)
    other = Workflow("awaiting", Job)

    @other.step
    async def look(_: Job, work: Work) -> Literal["done"]:
        began.append((work.id, work.attempt))
        if began.count((work.id, 1)) == 1 and work.id == "before":
            await asyncio.sleep(WAIT_S)
        return "done"

    other.ends(done=True)
    worker = at_work(flow, other)
    worker.client.submit(flow, Job(), id="bad")
    for name in ("before", "after"):
        worker.client.submit(other, Job(), id=name)

    before = held.perform(worker, "before")
    until(lambda: began, what="it awaits something")
    held_up = worker.runner.loop.started()
    bad = held.perform(worker, "bad")
    until(lambda: held.begun, what="the loop is held up")
    after = held.perform(worker, "after")
    for thread in (before, bad, after):
        thread.join(WAIT_S / 2)

    assert worker.client.show("after").state == "done", "it began in another loop"
    assert worker.work("before").state == "done", "it was given back"
    assert began == [("before", 1), ("after", 1), ("before", 1)], "no attempt was used up"
    held.end()
    until(lambda: not asyncio.all_tasks(held_up), what="nothing of them goes on there")
    assert began[3:] == [], "what was moved begins once"
    assert re.search(r"and does not stop; it is at \S+test_timeouts.py, line", asked(worker, "bad"))


@pytest.mark.parametrize(
    ("ms", "text"), [(200, "0.2 s"), (90_000, "1.5 min"), (3_600_000, "1 h"), (172_800_000, "2 d")]
)
def test_a_length_of_time_is_told_in_its_unit(ms: int, text: str) -> None:
    limit = AttemptLimit(ms)
    assert str(limit.error) == f"it took longer than {text}"
    assert isinstance(limit.error, TookTooLongError)
