"""Reads who works on which task since when, and what waits, as plain data.

It reads a bounded part of the store. Records beyond the limits are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from interlock import Client
from interlock.system.records import RecordInState, StateKey
from interlock.system.tables import PARTITIONS, Record, partition_of
from interlock.system.top import AgedRecord
from interlock.systems.tasks.claim_names import ClaimNames
from interlock.systems.tasks.claim_row import SCANNED_MAX, ClaimRecords, ClaimRow, age_s, row_of
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.agent.table import State as AgentState
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State, backlog_of
from interlock.systems.tasks.machines.visual_state import Thresholds, VisualState
from interlock.systems.tasks.next_try import next_try_s
from interlock.systems.tasks.settings import TaskSettings

ROWS_MAX = 200  # tasks and agents that are shown
FAILED_MAX = 50  # failed tasks that are shown, the latest
LOG_LINES_READ = 10  # of each task and agent that is shown
DEAD_SHOWN_MS = 60_000  # an agent that has ended is shown for so long

LISTED_MACHINES = ("task", "agent")
LIVE_STATES = (AgentState.WORKING, AgentState.STARTING, AgentState.IDLE)
# `done` comes first: such a task is not merged yet, and its agent may have ended already.
CLAIMED_STATES = (State.DONE, State.IN_PROGRESS, State.CLAIMED)
# The order of rows: claims that need attention come first.
ORDER = (
    VisualState.STALLED,
    VisualState.UNKNOWN,
    VisualState.MERGING,
    VisualState.RUNNING,
    VisualState.SPAWNING,
    VisualState.IDLE,
    VisualState.DEAD,
)
MachineState = tuple[str, str]


@dataclass(frozen=True, slots=True)
class NextTry:
    """A failed task that is tried again by itself, in so many seconds, and the retries it used."""

    id: str
    in_s: float
    retries: int
    max_retries: int


@dataclass(frozen=True, slots=True)
class TasksOverview:
    """The tasks and their agents at one moment of the store's clock, in ms.

    At least `more` claims have no row in `lines`. `partial` means that the backlog is too large to
    be read as a whole, so that its counts are minimums.
    """

    at_ms: int
    backlog: str
    lines: tuple[ClaimRow, ...]
    more: int
    looks: Mapping[str, int]
    tasks: Mapping[str, int]
    partial: bool
    oldest: AgedRecord | None
    next_tries: tuple[NextTry, ...]


@dataclass(frozen=True, slots=True)
class StateCounts:
    """How many records there are in each state of a machine, and some of them."""

    counts: Mapping[MachineState, int]
    found: Mapping[MachineState, Sequence[RecordInState]]
    partial: bool

    def some(self, machine: str, states: Iterable[str]) -> list[RecordInState]:
        """Return the records that were read in these states, in the order of the states."""
        return [row for state in states for row in self.found.get((machine, state), ())]

    def count(self, machine: str, *states: str) -> int:
        """Return how many there are in these states."""
        return sum(self.counts.get((machine, state), 0) for state in states)


class TasksReader:
    """Reads overviews of all tasks, or of those of one backlog."""

    def __init__(self, client: Client, *, backlog: str = "") -> None:
        self.client, self.backlog = client, backlog
        self.records = client.records
        self.partitions = [partition_of(backlog)] if backlog else list(range(PARTITIONS))
        self.states = {
            name: [str(stage.state) for stage in self.records.machines[name].stages]
            for name in LISTED_MACHINES
        }
        settings = client.settings.of(TaskSettings)
        self.thresholds = Thresholds(stall_s=settings.stall_s, spawn_s=settings.spawn_s)

    def read(self) -> TasksOverview:
        """Return an overview. Raises StoreError if the store is away."""
        now_ms = self.records.views.now_ms()
        counts_by_state = self._count_backlog() if self.backlog else self._count_all()
        claims, more = self._claims(counts_by_state, now_ms)
        rows = [row_of(claim, now_ms, self.thresholds, self._lease_ms) for claim in claims]
        looks = Counter(row.look for row in rows)
        opened = counts_by_state.some("task", [State.OPEN])
        first = min(opened, key=lambda row: row.since_ms, default=None)
        return TasksOverview(
            at_ms=now_ms,
            backlog=self.backlog,
            lines=tuple(sorted(rows, key=_rank)),
            more=more,
            looks={str(look): looks[look] for look in ORDER},
            tasks={state: counts_by_state.count("task", state) for state in self.states["task"]},
            partial=counts_by_state.partial,
            oldest=AgedRecord(first.id, "task", first.state, age_s(now_ms, first.since_ms))
            if first
            else None,
            next_tries=self._next_tries(counts_by_state.some("task", [State.FAILED]), now_ms),
        )

    def _lease_ms(self, machine: str, effect: str) -> int:
        return self.records.effect(machine, effect).lease_ms

    def _count_all(self) -> StateCounts:
        """Count all records. Read the oldest that may get a row, and the oldest open task."""
        views = self.records.views
        keys = [
            StateKey(machine, state, partition)
            for machine in LISTED_MACHINES
            for state in self.states[machine]
            for partition in self.partitions
        ]
        counts_by_key = views.count_in_states(keys)
        counts: Counter[MachineState] = Counter()
        for key, number in counts_by_key.items():
            counts[key.machine, key.state] += number
        limits: dict[StateKey, int] = {}
        with_rows = [
            *(("agent", state) for state in LIVE_STATES),
            *(("task", state) for state in CLAIMED_STATES),
        ]
        for machine_state in with_rows:
            limits |= _shared(_only(counts_by_key, machine_state))
        # Only the oldest open task is named.
        limits |= {key: 1 for key, n in _only(counts_by_key, ("task", State.OPEN)).items() if n}
        dead = dict.fromkeys(_only(counts_by_key, ("agent", AgentState.DEAD)), ROWS_MAX)
        failed = dict.fromkeys(_only(counts_by_key, ("task", State.FAILED)), FAILED_MAX)
        pages = [
            *views.list_in_states(limits).values(),
            *views.list_in_states(dead | failed, newest=True).values(),
        ]
        return StateCounts(counts, _by_state(pages), partial=False)

    def _count_backlog(self) -> StateCounts:
        """Read a backlog's partition, which other backlogs may share, and keep only its records."""
        views, partition = self.records.views, self.partitions[0]
        limits = {
            StateKey(machine, state, partition): SCANNED_MAX
            for machine in LISTED_MACHINES
            for state in self.states[machine]
        }
        dead = {key: limits.pop(key) for key in _only(limits, ("agent", AgentState.DEAD))}
        scanned = views.list_in_states(limits)
        pages = [*scanned.values(), *views.list_in_states(dead, newest=True).values()]
        kept = [[row for row in page if backlog_of(row.id) == self.backlog] for page in pages]
        found = _by_state(kept)
        partial = any(len(page) == SCANNED_MAX for page in scanned.values())
        return StateCounts(
            {name: len(page) for name, page in found.items()}, found, partial=partial
        )

    def _claims(self, counts_by_state: StateCounts, now_ms: int) -> tuple[list[ClaimRecords], int]:
        """Return the claims that get a row, and at least how many get none."""
        views = self.records.views
        ended = sorted(
            counts_by_state.some("agent", [AgentState.DEAD]), key=lambda row: -row.since_ms
        )
        lately = [row for row in ended if row.since_ms > now_ms - DEAD_SHOWN_MS]
        shown = [row.id for row in (*counts_by_state.some("agent", LIVE_STATES), *lately)][
            :ROWS_MAX
        ]
        agents: dict[str, Record[AgentData]] = {
            **views.records(shown, readable_by=self.records.machines)
        }
        wanted = [row.id for row in counts_by_state.some("task", CLAIMED_STATES)][:ROWS_MAX]
        of_agents = (str(agent.data["task"]) for agent in agents.values())
        tasks: Mapping[str, Record[TaskData]] = views.records(
            [*wanted, *of_agents], readable_by=self.records.machines
        )
        claimed = [
            task for task in tasks.values() if task.state in CLAIMED_STATES and "claim" in task.data
        ]
        more = [_agent_of(task) for task in claimed if _agent_of(task) not in agents]
        agents |= views.records(more, readable_by=self.records.machines)
        claims = [
            ClaimRecords(_names(task), task=task, agent=agents.get(_agent_of(task)), present=True)
            for task in claimed
        ]
        covered = {claim.agent.id for claim in claims if claim.agent and _covers_agent(claim)}
        rest = [agents[agent] for agent in shown if agent in agents and agent not in covered]
        claims += [_claim_of_agent(agent, tasks) for agent in rest]
        # A claimed task and its agent are one claim, so the larger of both counts is a minimum.
        minimum = counts_by_state.count("agent", AgentState.IDLE) + max(
            counts_by_state.count("agent", AgentState.WORKING, AgentState.STARTING),
            counts_by_state.count("task", State.IN_PROGRESS, State.CLAIMED),
        )
        kept = claims[:ROWS_MAX]
        return self._with_logs(kept), max(minimum, len(claims)) - len(kept)

    def _with_logs(self, claims: Sequence[ClaimRecords]) -> list[ClaimRecords]:
        views = self.records.views
        names = [claim.names.turn for claim in claims]
        turns = views.records(names, readable_by=self.records.machines)
        ids = [record.id for claim in claims for record in (claim.task, claim.agent) if record]
        logs = views.latest(ids, LOG_LINES_READ)
        return [
            replace(
                claim,
                turn=turns.get(claim.names.turn),
                task_log=logs[claim.task.id] if claim.task else (),
                agent_log=logs[claim.agent.id] if claim.agent else (),
            )
            for claim in claims
        ]

    def _next_tries(self, failed: Sequence[RecordInState], now_ms: int) -> tuple[NextTry, ...]:
        """Return the next try of each task that failed lately, the earliest try first."""
        latest = sorted(failed, key=lambda row: -row.since_ms)[:FAILED_MAX]
        ids = [row.id for row in latest]
        records: Mapping[str, Record[TaskData]] = self.records.views.records(
            ids, readable_by=self.records.machines
        )
        found = [
            NextTry(record.id, in_s, int(record.data["retries"]), int(record.data["max_retries"]))
            for record in records.values()
            if (in_s := next_try_s(record, now_ms)) is not None
        ]
        return tuple(sorted(found, key=lambda task: task.in_s))


def _rank(row: ClaimRow) -> tuple[int, float, str, int]:
    return ORDER.index(row.look), -row.age_s, row.task, row.number


def _only(counts: Mapping[StateKey, int], state: MachineState) -> dict[StateKey, int]:
    return {key: number for key, number in counts.items() if (key.machine, key.state) == state}


def _shared(counts_by_key: Mapping[StateKey, int]) -> dict[StateKey, int]:
    """Return how many records to read for each key, at most ROWS_MAX in all."""
    left, limits = ROWS_MAX, {}
    for key, number in counts_by_key.items():
        limits[key] = min(number, left)
        left -= limits[key]
    return {key: limit for key, limit in limits.items() if limit}


def _by_state(pages: Iterable[Sequence[RecordInState]]) -> dict[MachineState, list[RecordInState]]:
    found: dict[MachineState, list[RecordInState]] = {}
    for page in pages:
        for row in page:
            found.setdefault((row.machine, row.state), []).append(row)
    return found


def _names(task: Record[TaskData]) -> ClaimNames:
    return ClaimNames(task.id, int(task.data["claim"]["number"]))


def _agent_of(task: Record[TaskData]) -> str:
    """Return the id of the agent of a task's current claim. An external agent has no record."""
    return str(task.data["claim"].get("agent") or _names(task).agent)


def _covers_agent(claim: ClaimRecords) -> bool:
    """Return whether the claim's row is the agent's only one. A free agent gets another row."""
    assert claim.agent is not None, "the caller checked"
    assert claim.task is not None, "a current claim has a task"
    free = claim.delivered and claim.agent.state == AgentState.IDLE
    return not free and claim.agent.data["task"] == claim.task.id


def _claim_of_agent(agent: Record[AgentData], tasks: Mapping[str, Record]) -> ClaimRecords:
    """Return the claim of an agent whose task has no current claim by that agent."""
    task = str(agent.data["task"])
    number = agent.id.rpartition("~")[2]
    names = ClaimNames(task, int(number) if number.isdigit() else 0)
    return ClaimRecords(names, task=tasks.get(task), agent=agent)
