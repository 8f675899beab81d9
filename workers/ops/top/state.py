"""What agents, tasks and queues look like at one moment, as plain data; it draws nothing.

A look reads a bounded part of the store: what lies beyond is counted, or said to be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from interlock.kernel.machines.tasks.visual_state import Thresholds, VisualState
from interlock.kernel.record import PARTITIONS, Record, partition_of, root_of
from interlock.kernel.store.views import RecordInState, StateKey
from interlock.kernel.table import Active
from interlock.workers.client import Client
from interlock.workers.ops.top.claim import Claim, Line, line_of
from interlock.workers.systems import SYSTEMS
from interlock.workers.tasks.claim_names import ClaimNames
from interlock.workers.tasks.client import Tasks

LINES_MAX = 200
SCANNED_MAX = 2_000  # of one backlog, in each state
OPEN_MAX = 50
DEPENDENCIES_MAX = 100
ASKED_MAX = 5
LOG_LINES = 10
DEAD_MS = 60_000

MACHINES = ("task", "agent")
# Of these it only counts how many are in each state; each has a list of its own with more.
OTHERS = tuple(name for system in SYSTEMS for name in system.counted)
ALIVE = ("working", "starting", "idle")
# Done, but not merged, comes first: its agent may have ended, and then nothing else tells of it.
LISTED = ("done", "in_progress", "claimed")
# Who needs a look stands on top.
ORDER = (
    VisualState.STALLED,
    VisualState.UNKNOWN,
    VisualState.MERGING,
    VisualState.RUNNING,
    VisualState.SPAWNING,
    VisualState.IDLE,
    VisualState.DEAD,
)
Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Aged:
    """A record that has been in a state for so long; `why` where there is a reason to tell."""

    id: str
    state: str
    age_s: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """All of it at one moment, the store's ms; `more` claims at least have no line.

    `partial` says that a backlog is larger than what is looked at: its counts are the least.
    """

    at_ms: int
    backlog: str
    lines: tuple[Line, ...]
    more: int
    looks: Mapping[str, int]
    tasks: Mapping[str, int]
    partial: bool
    queues: Mapping[str, int]
    asks: int
    asked: tuple[Aged, ...]
    starved: tuple[Aged, ...]
    oldest: Aged | None
    others: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    others_at_work: int = 0


@dataclass(frozen=True, slots=True)
class Census:
    """How many records stand in each state of a machine, and some of them."""

    counts: Mapping[Name, int]
    found: Mapping[Name, Sequence[RecordInState]]
    partial: bool

    def some(self, machine: str, states: Iterable[str]) -> list[RecordInState]:
        """Return those found in these states, state after state."""
        return [one for state in states for one in self.found.get((machine, state), ())]

    def count(self, machine: str, *states: str) -> int:
        """Return how many there are in these states."""
        return sum(self.counts.get((machine, state), 0) for state in states)


class Top:
    """Looks at a whole deployment, or at one backlog."""

    def __init__(self, client: Client, *, backlog: str = "") -> None:
        self.client, self.backlog = client, backlog
        self.dispatch, self.tasks = client.dispatch, Tasks(client)
        self.partitions = [partition_of(backlog)] if backlog else list(range(PARTITIONS))
        self.states = {
            name: [str(stage.state) for stage in client.machines[name].stages] for name in MACHINES
        }
        effects = [e for machine in client.machines.values() for e in machine.effects.values()]
        self.queues = sorted({effect.name for effect in effects if not effect.kept})
        settings = client.settings
        self.thresholds = Thresholds(stall_s=settings.stall_s, spawn_s=settings.spawn_s)

    def look(self) -> Picture:
        """Look once. Raises StoreError where the store is away."""
        now_ms = self.dispatch.views.now_ms()
        census = self._backlog_census() if self.backlog else self._census()
        claims, more = self._claims(census, now_ms)
        lines = [line_of(one, now_ms, self.thresholds, self._lease_ms) for one in claims]
        looks = Counter(line.look for line in lines)
        asks, asked = self._asked(now_ms)
        opened = census.some("task", ["open"])
        others = {} if self.backlog else self._others()
        first = min(opened, key=lambda one: one.since_ms, default=None)
        return Picture(
            at_ms=now_ms,
            backlog=self.backlog,
            lines=tuple(sorted(lines, key=_rank)),
            more=more,
            looks={str(look): looks[look] for look in ORDER},
            tasks={state: census.count("task", state) for state in self.states["task"]},
            partial=census.partial,
            queues={name: self.dispatch.waiting(name) for name in self.queues},
            asks=asks,
            asked=asked,
            starved=self._starved(opened, now_ms),
            oldest=Aged(first.id, first.state, _s(now_ms - first.since_ms)) if first else None,
            others=others,
            others_at_work=self._at_work(others),
        )

    def _others(self) -> dict[str, dict[str, int]]:
        """Return how many records of the other machines stand in each state where any does."""
        places = [
            StateKey(name, str(stage.state), partition)
            for name in OTHERS
            for stage in self.client.machines[name].stages
            for partition in self.partitions
        ]
        found: dict[str, Counter[str]] = {}
        for place, number in self.dispatch.views.count_in_states(places).items():
            found.setdefault(place.machine, Counter())[place.state] += number
        states = {
            name: [str(stage.state) for stage in self.client.machines[name].stages]
            for name in OTHERS
        }
        return {
            name: {state: found[name][state] for state in states[name] if found[name][state]}
            for name in OTHERS
            if name in found
        }

    def _at_work(self, others: Mapping[str, Mapping[str, int]]) -> int:
        """Return how many of them are in a state in which something is at work."""
        return sum(
            number
            for name, counts in others.items()
            for state, number in counts.items()
            if isinstance(self.client.machines[name].stage(state), Active)
        )

    def _lease_ms(self, machine: str, effect: str) -> int:
        return self.dispatch.effect(machine, effect).lease_ms

    # --- who stands where ------------------------------------------------------------------------

    def _census(self) -> Census:
        """Count everything; of what stands on lines, and of what is open, take the first."""
        views = self.dispatch.views
        places = [
            StateKey(machine, state, partition)
            for machine in MACHINES
            for state in self.states[machine]
            for partition in self.partitions
        ]
        count_in_states = views.count_in_states(places)
        counts: Counter[Name] = Counter()
        for place, number in count_in_states.items():
            counts[place.machine, place.state] += number
        limits: dict[StateKey, int] = {}
        for name in (*(("agent", one) for one in ALIVE), *(("task", one) for one in LISTED)):
            limits |= _shared(_only(count_in_states, name))
        limits |= dict.fromkeys(_only(count_in_states, ("task", "open")), OPEN_MAX)
        dead = dict.fromkeys(_only(count_in_states, ("agent", "dead")), LINES_MAX)
        pages = [
            *views.list_in_states(limits).values(),
            *views.list_in_states(dead, newest=True).values(),
        ]
        return Census(counts, _by_name(pages), partial=False)

    def _backlog_census(self) -> Census:
        """Look through the partition of a backlog, which it may share: no index is its own."""
        views, partition = self.dispatch.views, self.partitions[0]
        limits = {
            StateKey(machine, state, partition): SCANNED_MAX
            for machine in MACHINES
            for state in self.states[machine]
        }
        dead = {place: limits.pop(place) for place in _only(limits, ("agent", "dead"))}
        scanned = views.list_in_states(limits)
        pages = [*scanned.values(), *views.list_in_states(dead, newest=True).values()]
        own = [[one for one in page if root_of(one.id) == self.backlog] for page in pages]
        found = _by_name(own)
        partial = any(len(page) == SCANNED_MAX for page in scanned.values())
        return Census({name: len(page) for name, page in found.items()}, found, partial=partial)

    # --- claims ----------------------------------------------------------------------------------

    def _claims(self, census: Census, now_ms: int) -> tuple[list[Claim], int]:
        """Return the claims that get a line, and how many at least do not."""
        views = self.dispatch.views
        ended = sorted(census.some("agent", ["dead"]), key=lambda one: -one.since_ms)
        lately = [one for one in ended if one.since_ms > now_ms - DEAD_MS]
        shown = [one.id for one in (*census.some("agent", ALIVE), *lately)][:LINES_MAX]
        agents = views.records(shown)
        wanted = [one.id for one in census.some("task", LISTED)][:LINES_MAX]
        tasks = views.records([*wanted, *(str(one.data["task"]) for one in agents.values())])
        claimed = [one for one in tasks.values() if one.state in LISTED and "claim" in one.data]
        agents |= views.records(_agent_of(one) for one in claimed if _agent_of(one) not in agents)
        claims = [
            Claim(_place(one), task=one, agent=agents.get(_agent_of(one)), present=True)
            for one in claimed
        ]
        covered = {one.agent.id for one in claims if one.agent and _is_agents(one)}
        rest = [agents[one] for one in shown if one in agents and one not in covered]
        claims += [_alone(agent, tasks) for agent in rest]
        # A task at work and its agent are one claim: of both counts the larger is the least.
        least = census.count("agent", "idle") + max(
            census.count("agent", "working", "starting"),
            census.count("task", "in_progress", "claimed"),
        )
        kept = claims[:LINES_MAX]
        return self._with_logs(kept), max(least, len(claims)) - len(kept)

    def _with_logs(self, claims: Sequence[Claim]) -> list[Claim]:
        views = self.dispatch.views
        turns = views.records(claim.place.turn for claim in claims)
        known = [one.id for claim in claims for one in (claim.task, claim.agent) if one]
        logs = views.latest(known, LOG_LINES)
        return [
            replace(
                claim,
                turn=turns.get(claim.place.turn),
                task_log=logs[claim.task.id] if claim.task else (),
                agent_log=logs[claim.agent.id] if claim.agent else (),
            )
            for claim in claims
        ]

    # --- what waits ------------------------------------------------------------------------------

    def _asked(self, now_ms: int) -> tuple[int, tuple[Aged, ...]]:
        """Return how many wait for a person, and the first of them."""
        views = self.dispatch.views
        limit = SCANNED_MAX if self.backlog else ASKED_MAX
        number, found = views.waits(self.partitions, limit)
        if self.backlog:
            found = [row for row in found if root_of(row[0]) == self.backlog]
            number = len(found)
        first = found[:ASKED_MAX]
        records = views.records(one for one, _ in first)
        return number, tuple(
            Aged(one, records[one].state, _s(now_ms - since_ms))
            for one, since_ms in first
            if one in records
        )

    def _starved(self, opened: Sequence[RecordInState], now_ms: int) -> tuple[Aged, ...]:
        """Return those of the oldest open tasks that can never be claimed as things stand."""
        oldest = sorted(opened, key=lambda one: one.since_ms)[:OPEN_MAX]
        found, left = [], DEPENDENCIES_MAX
        for record in self.dispatch.views.records(one.id for one in oldest).values():
            asked = len(record.data["depends_on"])
            if asked > left:
                break
            left -= asked
            if why := self.tasks.why_starved(record):
                age_s = _s(now_ms - record.since_ms)
                found.append(Aged(record.id, record.state, age_s, why))
        return tuple(found)


def _rank(line: Line) -> tuple[int, float, str, int]:
    return ORDER.index(line.look), -line.age_s, line.task, line.number


def _s(ms: int) -> float:
    return max(ms, 0) / 1_000


def _only(places: Mapping[StateKey, int], name: Name) -> dict[StateKey, int]:
    return {at: number for at, number in places.items() if (at.machine, at.state) == name}


def _shared(count_in_states: Mapping[StateKey, int]) -> dict[StateKey, int]:
    """Return how many to take from each place, so that all of them together are not too many."""
    left, limits = LINES_MAX, {}
    for place, number in count_in_states.items():
        limits[place] = min(number, left)
        left -= limits[place]
    return {place: limit for place, limit in limits.items() if limit}


def _by_name(pages: Iterable[Sequence[RecordInState]]) -> dict[Name, list[RecordInState]]:
    found: dict[Name, list[RecordInState]] = {}
    for page in pages:
        for one in page:
            found.setdefault((one.machine, one.state), []).append(one)
    return found


def _place(task: Record) -> ClaimNames:
    return ClaimNames(task.id, int(task.data["claim"]["number"]))


def _agent_of(task: Record) -> str:
    """Return the agent of a task's present claim; one that works for others has no record."""
    return str(task.data["claim"].get("agent") or _place(task).agent)


def _is_agents(claim: Claim) -> bool:
    """Tell whether a claim says all about its agent: one that delivered it may be free again."""
    assert claim.agent is not None, "it was looked up"
    assert claim.task is not None, "a present claim is a task's"
    free = claim.delivered and claim.agent.state == "idle"
    return not free and claim.agent.data["task"] == claim.task.id


def _alone(agent: Record, tasks: Mapping[str, Record]) -> Claim:
    """Return the claim of an agent whose task is about no claim of it now, or not any more."""
    task = str(agent.data["task"])
    number = agent.id.rpartition("~")[2]
    place = ClaimNames(task, int(number) if number.isdigit() else 0)
    return Claim(place, task=tasks.get(task), agent=agent)
