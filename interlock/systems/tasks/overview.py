"""Reads who works on which task since when, and what waits, as plain data.

It reads a bounded part of the store. Records beyond the limits are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from interlock import Client
from interlock.system.tables import Record
from interlock.system.top import AgedRecord
from interlock.systems.tasks.claim_names import ClaimNames
from interlock.systems.tasks.claim_row import ClaimRecords, ClaimRow, age_s, row_of
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.agent.table import State as AgentState
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State
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
# How many records of each state are read; the others are only counted.
READ: Mapping[MachineState, int] = {
    **{("agent", str(state)): ROWS_MAX for state in (*LIVE_STATES, AgentState.DEAD)},
    **{("task", str(state)): ROWS_MAX for state in CLAIMED_STATES},
    ("task", str(State.OPEN)): 1,  # only the oldest is named
    ("task", str(State.FAILED)): FAILED_MAX,
}
DEAD: MachineState = ("agent", str(AgentState.DEAD))
NEWEST = (DEAD, ("task", str(State.FAILED)))


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


class TasksReader:
    """Reads overviews of all tasks, or of those of one backlog."""

    def __init__(self, client: Client, *, backlog: str = "") -> None:
        self.client, self.backlog = client, backlog
        self.records = client.records
        self.limits = {
            (name, str(stage.state)): READ.get((name, str(stage.state)), 0)
            for name in LISTED_MACHINES
            for stage in self.records.machines[name].stages
        }
        settings = client.settings.of(TaskSettings)
        self.thresholds = Thresholds(stall_s=settings.stall_s, spawn_s=settings.spawn_s)

    def read(self) -> TasksOverview:
        """Return an overview. Raises StoreError if the store is away."""
        now_ms = self.records.now_ms()
        found = self.records.views.in_states(self.limits, root=self.backlog, newest=NEWEST)
        ids = {state: [row.id for row in one.rows] for state, one in found.items()}
        lately_ms = now_ms - DEAD_SHOWN_MS
        ids[DEAD] = [row.id for row in found[DEAD].rows if row.since_ms > lately_ms]
        counts = {state: one.number for state, one in found.items()}
        claims, more = self._claims(ids, counts)
        rows = [row_of(claim, now_ms, self.thresholds, self._lease_ms) for claim in claims]
        looks = Counter(row.look for row in rows)
        first = next(iter(found["task", State.OPEN].rows), None)
        return TasksOverview(
            at_ms=now_ms,
            backlog=self.backlog,
            lines=tuple(sorted(rows, key=_rank)),
            more=more,
            looks={str(look): looks[look] for look in ORDER},
            tasks={state: number for (name, state), number in counts.items() if name == "task"},
            partial=any(one.is_minimum for state, one in found.items() if state != DEAD),
            oldest=AgedRecord(first.id, "task", first.state, age_s(now_ms, first.since_ms))
            if first
            else None,
            next_tries=self._next_tries(ids["task", State.FAILED], now_ms),
        )

    def _lease_ms(self, machine: str, effect: str) -> int:
        return self.records.effect(machine, effect).lease_ms

    def _claims(
        self, ids: Mapping[MachineState, Sequence[str]], counts: Mapping[MachineState, int]
    ) -> tuple[list[ClaimRecords], int]:
        """Return the claims that get a row, and at least how many get none."""
        views = self.records.views
        alive = (ids["agent", state] for state in (*LIVE_STATES, AgentState.DEAD))
        shown = [*chain.from_iterable(alive)][:ROWS_MAX]
        agents: dict[str, Record[AgentData]] = {
            **views.records(shown, readable_by=self.records.machines)
        }
        taken = (ids["task", state] for state in CLAIMED_STATES)
        wanted = [*chain.from_iterable(taken)][:ROWS_MAX]
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
        at_work = (counts["agent", state] for state in (AgentState.WORKING, AgentState.STARTING))
        claimed_now = (counts["task", state] for state in (State.IN_PROGRESS, State.CLAIMED))
        minimum = counts["agent", AgentState.IDLE] + max(sum(at_work), sum(claimed_now))
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

    def _next_tries(self, failed: Sequence[str], now_ms: int) -> tuple[NextTry, ...]:
        """Return the next try of each task that failed lately, the earliest try first."""
        records: Mapping[str, Record[TaskData]] = self.records.views.records(
            failed, readable_by=self.records.machines
        )
        found = [
            NextTry(record.id, in_s, int(record.data["retries"]), int(record.data["max_retries"]))
            for record in records.values()
            if (in_s := next_try_s(record, now_ms)) is not None
        ]
        return tuple(sorted(found, key=lambda task: task.in_s))


def _rank(row: ClaimRow) -> tuple[int, float, str, int]:
    return ORDER.index(row.look), -row.age_s, row.task, row.number


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
