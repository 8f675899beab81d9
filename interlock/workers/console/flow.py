"""Says whether work flows: what the start page shows. It is read once for all viewers."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from interlock.kernel.machine import Machine
from interlock.kernel.machines import LISTED, effect_queue
from interlock.kernel.shown_stage import shown_stage
from interlock.kernel.store.metrics import BOUNDS_MS, Durations, Metrics
from interlock.kernel.table import Active, Terminal
from interlock.workers.engine.card import kinds_of
from interlock.workers.engine.celery_app import INTAKE_QUEUE, SWEEPS_QUEUE, effect_queues
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.kept import Kept
from interlock.workers.engine.open_cards import OpenCards
from interlock.workers.engine.record_filter import effects_at_work
from interlock.workers.engine.records import component
from interlock.workers.engine.system import StarvedCount
from interlock.workers.ops.attendance import attendance
from interlock.workers.systems import health, starved
from interlock.workers.terminal.page import Sentence

# Where several viewers ask within this half second more, none of them waits for the reading.
KEPT_S, BEHIND_S = 1.0, 1.5
# These are read more rarely, and in the background: workers have a second to answer, and the kinds
# of questions are known only from the records.
WORKERS_KEPT_S, WORKERS_BEHIND_S = 5.0, 20.0
RATE_S = 60.0
SPENT = "spent"  # the counter of money, in millionths of a dollar
QUESTIONS_MAX = 500  # that are read to count them by their kinds


@dataclass(frozen=True, slots=True)
class MachineRow:
    """A machine: its records that are live, that are at work and that have ended, and its flow.

    `spent` is in millionths of a dollar.
    """

    name: str
    live: int
    working: int
    ended: int
    transitions: int
    spent: int


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue: its messages, and within how many ms 95 % of its effects were claimed, at most.

    `oldest_ms` is when the message that waits longest was sent, None where none says that.
    `most_ms` is None for a queue without effects, or if it is longer than the largest bound.
    """

    name: str
    messages: int
    oldest_ms: int | None
    most_ms: int | None
    claimed: int


@dataclass(frozen=True, slots=True)
class Questions:
    """The open questions to people by machine and kind; cut where there are too many to read."""

    by_kind: Counter[tuple[str, str]]
    is_cut: bool
    stopped: Counter[str]  # by machine: those about the effect that is the work of a state

    def of_kind(self, kind: str, machines: Collection[str]) -> int:
        """Return how many there are of a kind, about records of these machines."""
        return sum(n for key, n in self.by_kind.items() if key[1] == kind and key[0] in machines)

    def of_machine(self, machine: str) -> int:
        """Return how many there are about records of a machine."""
        return sum(n for key, n in self.by_kind.items() if key[0] == machine)


@dataclass(frozen=True, slots=True)
class StateRow:
    """The records in one state; how long half and 95 % of those that left it were there, at most.

    The times are ms, None where nothing has left the state, or longer than the largest bound.
    """

    name: str
    count: int
    ended: bool
    left: int
    half_ms: int | None
    most_ms: int | None


@dataclass(frozen=True, slots=True)
class Flow:
    """What was seen. Times are ms by the store; `rate` is transitions a minute, None at first.

    `workers` has the queues of each worker that answers. `starved` has, for each system, how many
    records will never go on although no person is asked, and `notices` what else systems say.
    """

    now_ms: int
    rate: float | None
    machines: list[MachineRow]
    states: dict[str, list[StateRow]]
    depths: dict[str, int]
    oldest_ms: dict[str, int]
    queues: list[QueueRow]
    sweeps_ms: dict[str, int]
    swept: Counter[str]
    questions: Questions
    starved: Mapping[str, StarvedCount]
    over_budget: int
    rejected: int
    workers: Mapping[str, Sequence[str]]
    problems: list[str]
    notices: list[Sentence]
    totals: Metrics


class FlowWatch:
    """The flow of one deployment. The store is looked at once a second for all who look."""

    def __init__(self, dispatch: Dispatch) -> None:
        self.dispatch = dispatch
        self._effects = {
            name: {effect for _, effect in effects_at_work(one)}
            for name, one in dispatch.machines.items()
        }
        self._flow = Kept(self._look, KEPT_S, behind_s=BEHIND_S)
        self._depths = Kept(dispatch.indexes.depths, KEPT_S)
        self._questions = Kept(self._ask, WORKERS_KEPT_S, behind_s=WORKERS_BEHIND_S)
        self._workers = Kept(
            lambda: attendance(dispatch, dispatch.indexes.depths()),
            WORKERS_KEPT_S,
            behind_s=WORKERS_BEHIND_S,
        )
        self._starved = Kept(partial(starved, dispatch), WORKERS_KEPT_S, behind_s=WORKERS_BEHIND_S)
        self._seen: deque[tuple[float, int]] = deque()  # when, and how many transitions until then

    def look(self) -> Flow:
        """Return the flow as of at most BEHIND_S ago. Raises StoreError."""
        return self._flow.value()

    def listed(self, machines: Collection[str]) -> set[str]:
        """Return the effects that are the work of a state of these machines."""
        return set[str]().union(*(self._effects[name] for name in machines))

    def waiting(self, *, anew: bool) -> int:
        """Return how many records wait for a person, read `anew` if so asked. Raises StoreError."""
        depths = self.dispatch.indexes.depths() if anew else self._depths.value()
        return depths["waits"]

    def _look(self) -> Flow:
        dispatch, views = self.dispatch, self.dispatch.views
        machines = dispatch.machines
        listed = machines.keys() & LISTED.keys()
        counts, counted = views.counts(machines.values()), dispatch.metrics.read()
        found, questions = self._workers.value(), self._questions.value()
        counts_starved, problems_starved = self._starved.value()
        swept: Counter[str] = Counter()
        for (sweep, _), number in counted.sweeps.items():
            swept[sweep] += number
        return Flow(
            now_ms=views.now_ms(),
            rate=self._rate(sum(n for key, n in counted.transitions.items() if key[0] in listed)),
            machines=[
                _row(one, counts[name], counted, questions.stopped[name])
                for name, one in machines.items()
            ],
            states={name: _states(one, counts[name], counted) for name, one in machines.items()},
            depths=self._depths.value(),
            oldest_ms=self._oldest_ms(),
            queues=self._queues(counted),
            sweeps_ms=dispatch.indexes.last_sweeps(),
            swept=swept,
            questions=questions,
            starved=counts_starved,
            over_budget=sum(counted.over.values()),
            rejected=dispatch.rejected.kept(),
            workers=found["workers"],
            problems=[*found["problems"], *problems_starved],
            notices=[each.notice for each in health(dispatch) if each.notice],
            totals=counted,
        )

    def _oldest_ms(self) -> dict[str, int]:
        """Return since when the oldest effect, timer and question of each kind waits."""
        owed = self.dispatch.owed.oldest()
        effects = {"effects": owed[0].since_ms} if owed else {}
        return self.dispatch.indexes.oldest_ms() | effects

    def _queues(self, counted: Metrics) -> list[QueueRow]:
        """Return the queues that have messages, or whose effects were ever claimed."""
        machines = self.dispatch.machines.values()
        names = effect_queues(machines, INTAKE_QUEUE, SWEEPS_QUEUE)
        lengths = self.dispatch.publisher.queue_lengths(names)
        sent_s = self.dispatch.publisher.oldest_sent_s([name for name in names if lengths[name]])
        lags, found = lags_of(machines, counted), []
        for name, messages in lengths.items():
            lag = lags[name]
            if messages or sum(lag.buckets):
                oldest_ms = sent_s[name] * 1_000 if name in sent_s else None
                row = QueueRow(name, messages, oldest_ms, at_most(lag, 0.95), sum(lag.buckets))
                found.append(row)
        return found

    def _ask(self) -> Questions:
        """Count the questions of those records that wait longest for a person, by their kinds."""
        machines, found = self.dispatch.machines, Counter[tuple[str, str]]()
        stopped: Counter[str] = Counter()
        open_cards = OpenCards(component(self.dispatch, "console"), machines)
        records, more = open_cards.waiting(QUESTIONS_MAX)
        for record in records:
            for kind in kinds_of(machines[record.machine], record):
                found[record.machine, kind] += 1
            is_at_work = isinstance(shown_stage(machines[record.machine], record.state), Active)
            stopped[record.machine] += is_at_work and bool(record.quarantined)
        return Questions(found, bool(more), stopped)

    def _rate(self, transitions: int) -> float | None:
        """Return the transitions a minute, from what was seen within RATE_S."""
        now = time.monotonic()
        self._seen.append((now, transitions))
        while self._seen[0][0] < now - RATE_S:
            self._seen.popleft()
        began, before = self._seen[0]
        return (transitions - before) * 60 / (now - began) if now - began >= KEPT_S else None


def _row(machine: Machine, counts: Mapping[str, int], counted: Metrics, stopped: int) -> MachineRow:
    by_kind: Counter[type] = Counter()
    for stage in machine.stages:
        by_kind[type(stage)] += counts.get(str(stage.state), 0)
    return MachineRow(
        name=machine.name,
        live=sum(counts.values()) - by_kind[Terminal],
        working=max(by_kind[Active] - stopped, 0),
        ended=by_kind[Terminal],
        transitions=sum(n for key, n in counted.transitions.items() if key[0] == machine.name),
        spent=counted.sums.get((machine.name, SPENT), 0),
    )


def _states(machine: Machine, counts: Mapping[str, int], counted: Metrics) -> list[StateRow]:
    rows = []
    for stage in machine.stages:
        name = str(stage.state)
        dwell = counted.dwell.get((machine.name, name), Durations())
        rows.append(
            StateRow(
                name=name,
                count=counts.get(name, 0),
                ended=isinstance(stage, Terminal),
                left=sum(dwell.buckets),
                half_ms=at_most(dwell, 0.5),
                most_ms=at_most(dwell, 0.95),
            )
        )
    return rows


def lags_of(machines: Iterable[Machine], counted: Metrics) -> dict[str, Durations]:
    """Return how long effects waited in each queue.

    They are counted by their names alone: one that machines owe in different queues is left out.
    """
    queues: dict[str, set[str]] = defaultdict(set)
    for machine in machines:
        for effect in machine.effects.values():
            queues[effect.name].add(effect_queue(machine.name, effect))
    found: dict[str, Durations] = defaultdict(Durations)
    for name, lag in counted.lag.items():
        if len(queues[name]) == 1:
            (queue,) = queues[name]
            both = zip(found[queue].buckets, lag.buckets, strict=True)
            found[queue] = Durations([sum(pair) for pair in both])
    return found


def at_most(dwell: Durations, share: float) -> int | None:
    """Return the smallest bound, in ms, that a share of all durations did not exceed.

    None if there is no duration, or if the share is only reached above the largest bound.
    """
    total, seen = sum(dwell.buckets), 0
    for bound, count in zip(BOUNDS_MS, dwell.buckets, strict=False):
        seen += count
        if total and seen >= share * total:
            return bound
    return None
