"""Lists agents and identities, and lets a person promote, retire and abort them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal

from interlock import Client
from interlock.system.errors import IllegalTransitionError, InvalidPayloadError
from interlock.system.tables import AbortReason, Record, TransitionReason
from interlock.systems.tasks.agent_tree import ALIVE, reached
from interlock.systems.tasks.identities import ensure_identity
from interlock.systems.tasks.machines.abort import AbortScope
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.agent.table import State as AgentState
from interlock.systems.tasks.machines.agent.table import Trigger as AgentTrigger
from interlock.systems.tasks.machines.identity.table import IdentityData
from interlock.systems.tasks.machines.identity.table import Trigger as IdentityTrigger
from interlock.systems.tasks.machines.trust import MINIMUM_TRUST, Trust, allowed

Scope = Literal["sibling", "session"]


class Agents:
    """The operations on agents and their identities, over a client."""

    def __init__(self, client: Client) -> None:
        self.client, self.records = client, client.records

    def of(self, backlog: str) -> list[dict[str, Any]]:
        """Return the agents of a backlog that are not dead, with their states and tasks."""
        agents: Iterator[Record[AgentData]] = self._records("agent", backlog, ALIVE)
        return [
            {
                "id": record.id,
                "state": record.state,
                "task": record.data["task"],
                "identity": record.data["identity"],
                "host": record.data.get("host", ""),
                "pid": record.data.get("pid"),
                "containment": record.data.get("containment", ""),
            }
            for record in agents
        ]

    def identities(self, backlog: str) -> list[dict[str, Any]]:
        """Return every identity of a backlog with its trust and what its tasks came to."""
        return [identity_row(record) for record in self._records("identity", backlog)]

    def register(self, backlog: str, *, name: str, role: str = "any", command: str = "") -> str:
        """Return the id of an identity; create its record if it is new.

        Then a person can promote the identity before its first task.
        """
        return ensure_identity(self.records, backlog, name=name, role=role, command=command)

    def promote(self, identity: str, *, reason: str = "") -> Record:
        """Raise the trust of an identity by one level."""
        self.client.show(identity, machine="identity")
        return self.client.fire(
            identity, IdentityTrigger.PROMOTED, {"reason": reason}, reason=reason
        )

    def retire(self, identity: str, *, reason: str = "") -> Record:
        """Take an identity out of service: it claims no task after its current one."""
        self.client.show(identity, machine="identity")
        return self.client.fire(
            identity, IdentityTrigger.RETIRED, {"reason": reason}, reason=reason
        )

    def abort(self, agent: str, *, scope: Scope = "session", reason: str = "") -> Record:
        """Abort an agent's session with all agents below it, or its siblings.

        The policy of the task says whether an abort of siblings ends their parent as well. A single
        tool call cannot be aborted from outside: only the agent knows what does it. Of an agent
        that has ended, the abort of its session ends the agents below it that live, one after the
        other: if it raises half way, repeat it, and it ends those that are left, if there are any.
        """
        if scope not in ("sibling", "session"):
            raise InvalidPayloadError("the abort", [f"scope {scope!r}: sibling or session"])
        record = self.client.show(agent, machine="agent")
        if scope == "sibling":
            return self.client.fire(
                agent, AgentTrigger.SIBLINGS_ABORTED, {"reason": reason}, reason=reason
            )
        if record.state == AgentState.DEAD:
            self._abort_below(record, reason)
            return record
        end = {"abort": AbortReason.USER_INTERRUPT, "why": TransitionReason.ABORTED}
        return self.client.fire(agent, AgentTrigger.ENDED, {**end, "reason": reason}, reason=reason)

    def _abort_below(self, ended: Record[AgentData], reason: str) -> None:
        """End the agents below one that has ended.

        The end of a living agent has an effect that ends those below it. A record that has ended
        takes no trigger, so an agent that has ended can have no such effect again.
        """
        below = reached(self.records, ended, AbortScope.SESSION)
        for agent, abort in below.items():
            said = reason or f"{ended.id} was aborted"
            end = {"abort": abort, "why": abort.why, "reason": said}
            # An agent between them that has ended already refuses it, also after a repetition.
            with suppress(IllegalTransitionError):
                self.client.fire(agent, AgentTrigger.ENDED, end, reason=reason)

    def _records(self, machine: str, backlog: str, states: Sequence[str] = ()) -> Iterator[Record]:
        views = self.records.views
        ids = views.ids(self.records.machines[machine], root=backlog, states=states)
        return views.each_record(sorted(ids))


def identity_row(record: Record[IdentityData]) -> dict[str, Any]:
    """Return an identity with its trust, what its tasks came to, and what it may do."""
    counts = {name: record.data[name] for name in ("successes", "failures", "violations")}
    return {
        "id": record.id,
        "trust": record.state,
        "name": record.data["name"],
        "role": record.data["role"],
        "command": record.data["command"],
        **counts,
        "may": allowed_triggers(record.state),
    }


def allowed_triggers(level: str) -> list[str]:
    """Return which of an agent's triggers a level of trust allows."""
    if level not in set(Trust):
        return []
    return [trigger for trigger in MINIMUM_TRUST if allowed(Trust(level), trigger)]
