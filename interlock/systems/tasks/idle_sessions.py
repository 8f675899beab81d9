"""The idle sessions of this computer: each is given a task before a new process is started.

An idle session keeps its slot. So it is ended where a task waits for a slot that it cannot do.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import Any

from interlock import CallError, KernelError
from interlock.system.errors import AnotherVersionError, FencedError
from interlock.system.records import Records
from interlock.system.tables import Record, RecordContent
from interlock.systems.tasks.agent_slots import Occupant, occupants
from interlock.systems.tasks.claims import may_be_claimed
from interlock.systems.tasks.machines.agent.table import State as AgentState
from interlock.systems.tasks.machines.agent.table import Trigger as AgentTrigger
from interlock.systems.tasks.machines.effects import ASSIGNMENT
from interlock.systems.tasks.machines.task.data import TaskData

# A session takes a task only if these fields equal those of its first task.
SESSION_FIELDS = (
    "agent",
    "agent_name",
    "role",
    "tenant",
    "stream",
    "session",
    "parent_agent",
    "abort_policy",
)


def session_fields(data: TaskData) -> dict[str, Any]:
    """Return the fields of a task in which all tasks of a session are the same."""
    return {name: data.get(name) for name in SESSION_FIELDS}


def was_ended(records: Records, agent: str) -> bool:
    """Whether an agent is dead, as far as the store can be asked now."""
    with suppress(KernelError):
        return records.views.record(agent).state == AgentState.DEAD
    return False


class IdleSessions:
    """The idle sessions of this computer, as they were when they were first asked for."""

    def __init__(self, records: Records) -> None:
        self.records = records

    def leave(self, task: Record[TaskData]) -> bool:
        """Leave a task to an idle session, which looks for one every second; whether there is one.

        Each session is left one task.
        """
        alike = session_fields(task.data)
        for occupant, agent in self._idle:
            same = agent.root == task.root and dict(occupant.takes) == alike
            if same and may_be_claimed(self.records, task, agent=agent.id):
                self._idle.remove((occupant, agent))
                return True
        return False

    def end_one(self) -> None:
        """End the session that has been idle for longest, unless a slot is about to be free."""
        if not self._idle or any(agent.state == AgentState.DEAD for _, agent in self._agents):
            return
        _, agent = min(self._idle, key=lambda each: each[1].since_ms)
        reason = {"reason": "another task waited for its slot"}
        # It may have got a task, or have ended, meanwhile.
        with suppress(AnotherVersionError, CallError, FencedError):
            self.records.named(ASSIGNMENT.name).fire(agent.id, AgentTrigger.RECYCLED, reason)

    @cached_property
    def _agents(self) -> list[tuple[Occupant, RecordContent]]:
        found = occupants(self.records.settings)
        agents = self.records.views.contents(
            [occupant.agent for occupant in found], readable_by=self.records.machines
        )
        return [
            (occupant, agents[occupant.agent]) for occupant in found if occupant.agent in agents
        ]

    @cached_property
    def _idle(self) -> list[tuple[Occupant, RecordContent]]:
        return [each for each in self._agents if each[1].state == AgentState.IDLE]
