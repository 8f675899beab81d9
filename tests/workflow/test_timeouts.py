"""The timeout of a step: a limit of one attempt, after which the attempt has failed."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from interlock import Data, Work, Workflow, seconds
from interlock.kernel.event import Note
from interlock.testing import Kit
from interlock.workers.engine import time_limits
from interlock.workers.engine.work import EffectWork
from tests.waiting import until
from tests.workflow.at_work import AtWork, Start

NewKit = Callable[..., Kit[Any]]
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


def failures(worker: AtWork | Kit[Job], record_id: str) -> list[str]:
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


def stepping(kit: NewKit, **options: Any) -> Kit[Job]:
    """Return a workflow of one step, at work in a test's own time; each test replaces the step."""
    flow = Workflow("stepping", Job)

    @flow.step(timeout=LIMIT, **options)
    def work_on(_: Job, work: Work) -> Literal["done"]:
        work.once("transfer", print, "each test replaces it")
        return "done"

    flow.ends(done=True)
    made: Kit[Job] = kit(flow)
    made.submit(Job())
    return made


def test_a_step_that_looks_too_late_whether_it_shall_stop_changes_nothing(kit: NewKit) -> None:
    late = stepping(kit, max_attempts=1)

    def look(_: Job, work: Work) -> str:
        late.advance(seconds=3)
        work.raise_if_stopped()
        return "done"

    with late.replaced(work_on=look):
        late.run()

    assert late.lines[-1] == "work_on: left to another: its lease is over"
    assert len(failures(late, "one")) == 1


def test_a_step_that_looks_whether_it_shall_stop_ends_and_is_tried_again(kit: NewKit) -> None:
    looking = stepping(kit, max_attempts=2)

    def look(j: Job, work: Work) -> str:
        j.runs = work.attempt
        while work.attempt == 1:
            work.raise_if_stopped()
            looking.advance(seconds=0.1)
        return "done"

    with looking.replaced(work_on=look):
        assert looking.run().state == "done"

    assert looking.data.runs == 2
    assert failures(looking, "one") == ["it took longer than 0.2 s"]


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


def test_a_step_that_may_be_done_once_asks_whether_it_was_done(kit: NewKit) -> None:
    slow = stepping(kit, once=True)

    def pay(_: Job) -> str:
        slow.advance(seconds=3)
        assert slow.state == "work_on_unclear"
        return "done"

    with slow.replaced(work_on=pay):
        assert slow.run().state == "work_on_unclear", "its late end is refused"

    assert "it took longer than 0.2 s, and does not stop" in slow.card.question
    assert "lost" not in slow.card.question


@pytest.mark.parametrize("begins", [True, False])
def test_only_what_has_begun_is_unclear_if_a_step_takes_too_long(
    kit: NewKit,
    begins: bool,  # noqa: FBT001
) -> None:
    slow, begun = stepping(kit, max_attempts=2), list[int]()

    def transfer(attempt: int) -> None:
        begun.append(attempt)
        slow.advance(seconds=3)

    def pay(_: Job, work: Work) -> str:
        if work.attempt == 1 and not begins:
            slow.advance(seconds=3)
        work.once("transfer", transfer, work.attempt)
        return "done"

    with slow.replaced(work_on=pay):
        slow.run()

    assert slow.state == "work_on_unclear"
    assert "(transfer: it took longer than 0.2 s" in slow.card.question
    assert begun == [1 if begins else 2], "the late attempt begins nothing"


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


def test_a_record_that_hangs_keeps_no_slot_from_others(kit: NewKit) -> None:
    narrow, seen = stepping(kit, max_attempts=1, concurrency=1), list[str]()
    narrow.submit(Job(), id="good")

    def hang(_: Job, work: Work) -> str:
        if work.id == "one":
            narrow.advance(seconds=1)
            seen.append(narrow.client.show("good").state)
            narrow.advance(seconds=3)
            seen.append(narrow.client.show("good").state)
        return "done"

    with narrow.replaced(work_on=hang):
        narrow.run()

    assert seen == ["work_on", "done"]


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
