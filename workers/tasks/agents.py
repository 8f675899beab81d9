"""Agents for people: who is at work, how far each identity is trusted, and how one is aborted."""

from __future__ import annotations

from typing import Any, Literal

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.machines.tasks.trust import MINIMUM_TRUST, Trust, allowed
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.record import Record, partition_of, root_of
from interlock.workers.client import Client
from interlock.workers.tasks.claims import identified

LISTED_MAX = 10_000
Scope = Literal["tool", "sibling", "session"]


class Agents:
    """What can be done with agents and their identities, over a client."""

    def __init__(self, client: Client) -> None:
        self.client, self.dispatch = client, client.dispatch

    def of(self, backlog: str) -> list[dict[str, Any]]:
        """Return the agents of a backlog that live: where each stands, and on what it works."""
        return [
            {
                "id": one.id,
                "state": one.state,
                "task": one.data["task"],
                "identity": one.data["identity"],
                "host": one.data.get("host", ""),
                "pid": one.data.get("pid"),
                "containment": one.data.get("containment", ""),
            }
            for one in self._records("agent", backlog)
            if one.state != "dead"
        ]

    def identities(self, backlog: str) -> list[dict[str, Any]]:
        """Return every identity that ever worked on a backlog, with its trust and its record."""
        return [
            {
                "id": one.id,
                "trust": one.state,
                "name": one.data["name"],
                "role": one.data["role"],
                "command": one.data["command"],
                "successes": one.data["successes"],
                "failures": one.data["failures"],
                "violations": one.data["violations"],
                "may": may(one.state),
            }
            for one in self._records("identity", backlog)
        ]

    def known(self, backlog: str, *, name: str, role: str = "any", command: str = "") -> str:
        """Return the id of an identity, born where it is new, so that one can vouch for it."""
        return identified(self.dispatch, backlog, name=name, role=role, command=command)

    def promote(self, identity: str, *, reason: str = "") -> Record:
        """Vouch for an identity: it is trusted one level more."""
        return self.client.fire(identity, "promoted", {"reason": reason}, reason=reason)

    def retire(self, identity: str, *, reason: str = "") -> Record:
        """Take an identity out of service: it claims nothing more, and finishes what it has."""
        return self.client.fire(identity, "retired", {"reason": reason}, reason=reason)

    def abort(self, agent: str, *, scope: Scope = "session", reason: str = "") -> Record:
        """Abort an agent's tool call, its siblings, or its session with all that are below it.

        How far the first two go is said by the policy of its task.
        """
        if scope not in ("tool", "sibling", "session"):
            raise InvalidPayloadError("the abort", [f"scope {scope!r}: tool, sibling or session"])
        if scope != "session":
            told = {"scope": scope, "reason": reason}
            return self.client.fire(agent, "abort_raised", told, reason=reason)
        end = {"abort": AbortReason.USER_INTERRUPT, "why": TransitionReason.ABORTED}
        return self.client.fire(agent, "ended", {**end, "reason": reason}, reason=reason)

    def _records(self, machine_name: str, backlog: str) -> list[Record]:
        machine = self.dispatch.lifecycle.machine(machine_name)
        partition = partition_of(backlog)
        ids = [
            one
            for stage in machine.stages
            for one in self.dispatch.views.list_in_partition(
                machine, str(stage.state), partition, LISTED_MAX
            )
            if root_of(one) == backlog
        ]
        return [self.client.show(one) for one in sorted(ids)]


def may(level: str) -> list[str]:
    """Return which of an agent's triggers a level of trust allows."""
    if level not in set(Trust):
        return []
    return [trigger for trigger in MINIMUM_TRUST if allowed(Trust(level), trigger)]
