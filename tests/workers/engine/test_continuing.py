"""A thread goes on with the effect that follows from its outcome, and with which it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum, auto
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from interlock.kernel.effect import Effect
from interlock.kernel.errors import StoreDownError
from interlock.kernel.event import Note
from interlock.kernel.fired import Fired
from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Entry
from interlock.kernel.table import Active, Terminal, Transition, always
from interlock.kernel.timer import Timer
from interlock.kernel.traits import Placement
from interlock.workers.engine import continuing
from interlock.workers.engine.continued_tasks import ContinuingThreads
from interlock.workers.engine.continuing import EFFECTS_MAX, Stretch
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.gateways.server import EmbeddedServer
from tests.workers.engine.running import Running, perform, settings_for

EFFECTS = {
    "plain": Effect("plain"),
    "once": Effect("once"),
    "single": Effect("single", attempts_max=1),
    "exclusive": Effect("exclusive", exclusive=True),
    "local": Effect("local", local=True),
    "elsewhere": Effect("elsewhere", queue="elsewhere"),
    "limited": Effect("limited", concurrency=5),
    "kept": Effect("kept", kept=True),
}


class State(StrEnum):
    BEGINNING = auto()
    PLAIN = auto()
    ONCE = auto()
    SINGLE = auto()
    EXCLUSIVE = auto()
    LOCAL = auto()
    ELSEWHERE = auto()
    LIMITED = auto()
    KEPT = auto()
    DONE = auto()


class Trigger(StrEnum):
    TO_PLAIN = auto()
    TO_ONCE = auto()
    TO_SINGLE = auto()
    TO_EXCLUSIVE = auto()
    TO_LOCAL = auto()
    TO_ELSEWHERE = auto()
    TO_LIMITED = auto()
    TO_KEPT = auto()
    DONE = auto()
    STALLED = auto()


STALL = (Timer("stall", lambda _: 3_600_000, Trigger.STALLED),)
OF_KINDS = {name: State[name.upper()] for name in EFFECTS}
TO_KINDS = {name: Trigger[f"TO_{name.upper()}"] for name in EFFECTS}
ALL = (State.BEGINNING, *OF_KINDS.values())
JOURNEY = Machine(
    name="journey",
    stages=(
        Active(State.BEGINNING, STALL, effect=Effect("begin"), outcomes=tuple(TO_KINDS.values())),
        *(
            Active(
                state,
                STALL,
                effect=EFFECTS[name],
                outcomes=(Trigger.DONE, *(to for kind, to in TO_KINDS.items() if kind != name)),
                once=always if name == "once" else None,
                crash=Trigger.STALLED if name == "once" else None,
            )
            for name, state in OF_KINDS.items()
        ),
        Terminal(State.DONE),
    ),
    transitions=(
        *(
            Transition(source, TO_KINDS[name], target)
            for source in ALL
            for name, target in OF_KINDS.items()
            if source is not target
        ),
        *(Transition(state, Trigger.DONE, State.DONE) for state in OF_KINDS.values()),
        *(Transition(state, Trigger.STALLED, State.DONE, abandons=True) for state in ALL),
    ),
    placement=Placement(host=lambda data: str(data.get("host", ""))),
)


@dataclass
class Journey:
    """A record, and the runner of a worker with one thread: that of the test."""

    running: Running
    client: redis.Redis
    messages: list[str] = field(default_factory=list)

    def begin(self, **data: Any) -> None:
        self.running.client.submit(data, machine="journey", id="one")
        self.client.delete(*self.queues())

    def queues(self) -> list[str]:
        """Return the lists of the broker that have messages."""
        prefix = self.running.dispatch.settings.namespace
        return [name.decode() for name in self.client.scan_iter(f"{prefix}.*", _type="list")]

    def perform(self, to: str, entry: Entry | None = None) -> str:
        """Perform the effect of the record, with this outcome."""
        due = entry or self.entry()
        outcome = Outcome(Trigger.DONE if to == "done" else TO_KINDS[to])
        key = due.key("one")
        return perform(self.running.runner, JOURNEY, due.name, lambda _: outcome, key)

    def entry(self) -> Entry:
        return self.running.entry("one")

    def stretch(self, priority: int = 5) -> Any:
        """Return the context of a thread that got a message."""
        self.running.runner.continuing.wait(priority)
        return self.running.runner.continuing.stretch(priority)

    def goes_on(self, stretch: Stretch) -> bool:
        """Return whether the thread goes on with what the record owes now; else it is published."""
        entry = self.entry()
        granted = stretch.granted
        if granted is None:
            assert (entry.state, len(self.queues())) == ("owed", 1)
            return False
        assert granted.lease.key == entry.key("one")
        assert (entry.state, entry.holder) == ("leased", self.running.dispatch.holder)
        assert self.queues() == []
        return True


@pytest.fixture
def journey(server: EmbeddedServer, prefix: str, client: redis.Redis) -> Iterator[Journey]:
    MACHINES.add("journey", cache(lambda: JOURNEY))
    try:
        yield Journey(Running(settings_for(server.url, prefix, INTERLOCK_HOST="here")), client)
    finally:
        del MACHINES.entries["journey"]


def test_a_thread_goes_on_with_the_effect_that_follows_without_message_and_claim(
    journey: Journey, monkeypatch: pytest.MonkeyPatch
) -> None:
    journey.begin()
    with journey.stretch() as stretch:
        assert journey.perform("plain") == "to_plain -> plain"
        assert journey.goes_on(stretch)
        entry = journey.entry()
        monkeypatch.setattr(journey.running.dispatch.leases, "claim", None)
        assert journey.perform("done") == "done -> done"

    assert (entry.attempts, stretch.granted) == (1, None)
    lines = journey.running.client.history("one")
    claims = [line.detail for line in lines if isinstance(line, Note) and line.kind == "claim"]
    assert [(c["effect"], c["token"]) for c in claims][1:] == [(entry.suffix, entry.token)]


def test_a_thread_without_a_message_goes_on_with_nothing(journey: Journey) -> None:
    journey.begin()
    journey.perform("plain")

    assert journey.entry().state == "owed"


@pytest.mark.parametrize(
    ("kind", "data", "goes_on"),
    [
        ("plain", {}, True),
        ("once", {}, False),
        ("single", {}, False),
        ("exclusive", {}, False),
        ("elsewhere", {}, False),
        ("limited", {}, False),
        ("local", {}, True),
        ("local", {"host": "here"}, True),
        ("local", {"host": "there"}, False),
    ],
)
def test_it_goes_on_with_effects_whose_messages_it_would_take_and_that_may_be_lost(
    journey: Journey, kind: str, data: dict[str, str], *, goes_on: bool
) -> None:
    app = journey.running.dispatch.publisher.app
    app.amqp.queues.deselect(f"{journey.running.dispatch.settings.namespace}.elsewhere")
    journey.begin(**data)
    with journey.stretch() as stretch:
        journey.perform(kind)

        assert journey.goes_on(stretch) is goes_on


def test_a_paused_record_owes_the_effect_as_any_other(journey: Journey) -> None:
    journey.begin()

    def pause(_: EffectWork) -> Outcome:
        journey.running.client.pause("one", reason="to look at it")
        return Outcome(TO_KINDS["plain"])

    with journey.stretch() as stretch:
        entry = journey.entry()
        perform(journey.running.runner, JOURNEY, "begin", pause, entry.key("one"))

        entry = journey.entry()
        assert (entry.name, entry.state) == ("plain", "owed")
        assert (stretch.granted, journey.queues()) == (None, [])
    journey.running.client.resume("one", reason="it is well")
    assert len(journey.queues()) == 1


def test_a_kept_effect_needs_a_process_that_holds_it(journey: Journey) -> None:
    journey.begin()
    with journey.stretch() as stretch:
        assert "needs a holder from the start" in journey.perform("kept")

        assert stretch.granted is None


def test_a_thread_takes_the_lease_of_no_other_effect(journey: Journey) -> None:
    journey.begin()
    with journey.stretch() as stretch:
        journey.perform("plain")

        assert journey.running.runner.continuing.take("two:1.0:other") is None
        assert journey.goes_on(stretch)


@pytest.mark.parametrize(("waiting", "goes_on"), [(4, False), (5, True), (9, True)])
def test_a_message_of_a_more_urgent_record_that_waits_ends_a_stretch(
    journey: Journey, waiting: int, *, goes_on: bool
) -> None:
    journey.begin()
    with journey.stretch() as stretch:
        journey.running.runner.continuing.wait(waiting)
        journey.perform("plain")

        assert journey.goes_on(stretch) is goes_on


@pytest.mark.parametrize(("waits", "goes_on"), [(True, False), (False, True)])
def test_a_stretch_that_takes_long_ends_while_messages_wait(
    journey: Journey, monkeypatch: pytest.MonkeyPatch, *, waits: bool, goes_on: bool
) -> None:
    monkeypatch.setattr(continuing, "STRETCH_S_MAX", 0)
    journey.begin()
    with journey.stretch() as stretch:
        if waits:
            journey.running.runner.continuing.wait(5)
        journey.perform("plain")

        assert journey.goes_on(stretch) is goes_on


def test_a_stretch_has_a_limited_number_of_effects(journey: Journey) -> None:
    journey.begin()
    with journey.stretch() as stretch:
        stretch.effects = EFFECTS_MAX - 1
        journey.perform("plain")
        assert journey.goes_on(stretch)
        stretch.effects += 1
        journey.perform("local")

        assert not journey.goes_on(stretch)


def test_a_worker_that_ends_goes_on_with_nothing_and_gives_back_what_it_got_uncounted(
    journey: Journey,
) -> None:
    journey.begin()
    with journey.stretch() as stretch:
        journey.perform("plain")
        assert journey.goes_on(stretch)
        journey.running.runner.shut_down()

        assert journey.perform("done") == "retry: released at shutdown: owed"
    entry = journey.entry()
    assert (entry.name, entry.state, entry.attempts) == ("plain", "owed", 0)


def test_a_worker_that_ends_while_an_effect_is_at_work_goes_on_with_nothing(
    journey: Journey,
) -> None:
    journey.begin()

    def end(_: EffectWork) -> Outcome:
        journey.running.runner.shut_down()
        return Outcome(TO_KINDS["plain"])

    with journey.stretch() as stretch:
        key = journey.entry().key("one")
        perform(journey.running.runner, JOURNEY, "begin", end, key)

        assert not journey.goes_on(stretch)


def test_a_commit_whose_reply_was_lost_gives_the_lease_to_its_repeat(
    journey: Journey, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatch = journey.running.dispatch
    fire, lost = dispatch.lifecycle.fire, [True]

    def lose_reply(*call: Any, **options: Any) -> Fired:
        fired = fire(*call, **options)
        if lost.pop() if lost else False:
            raise StoreDownError("the reply is lost")
        return fired

    monkeypatch.setattr(dispatch.lifecycle, "fire", lose_reply)
    journey.begin()
    with journey.stretch() as stretch:
        journey.perform("plain")

        assert journey.goes_on(stretch)
        assert journey.perform("done") == "done -> done"


def test_the_effect_that_follows_is_counted_as_one_that_was_claimed(journey: Journey) -> None:
    journey.begin()
    with journey.stretch():
        journey.perform("plain")

    found = journey.running.dispatch.metrics.read()
    assert found.attempts["plain", "first"] == 1
    assert (found.lag["plain"].sum_ms, sum(found.lag["plain"].buckets)) == (0, 1)


@pytest.mark.parametrize("sent", [None, 0, 9, 10, -1, 255, "5", 5.0, [5]])
def test_a_message_with_any_priority_waits_for_a_thread(journey: Journey, sent: Any) -> None:
    submitted: list[Any] = []
    pool = SimpleNamespace(on_apply=lambda *given, **_: submitted.append(given))
    ContinuingThreads(SimpleNamespace(pool=pool), journey.running.runner.continuing)

    pool.on_apply(
        print, ["a task", "an id", {"delivery_info": {"priority": sent}}], {}, print, print
    )

    [(_, (priority, _))] = submitted
    assert priority in range(10)
