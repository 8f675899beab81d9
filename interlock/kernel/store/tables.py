"""Keeps which tables a deployment works by, their outlines, and the processes with their tables."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from interlock.kernel.outline import FORM
from interlock.kernel.store.codec import UNREADABLE
from interlock.kernel.store.hosts import SILENCE_MS
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read


@dataclass(frozen=True, slots=True)
class Applied:
    """The digest of the table that is applied, by which process, and when (ms, by the store)."""

    digest: str
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a deployment. `tables` has the digest of each of its machines."""

    name: str
    kind: str
    version: str
    tables: Mapping[str, str]


_PROCESS = TypeAdapter(Process)


class Tables:
    """The tables of a deployment, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def keep(self, machine: str, digest: str, outline: Mapping[str, Any]) -> None:
        """Keep the outline of a table. One that is kept under the same digest stays."""
        named = {"outlines": self.keys.outlines(), "states": self.keys.table_states()}
        plan = {
            "name": f"{machine} {digest}",
            "outline": json.dumps(outline, separators=(",", ":")),
            "names": [f"{machine} {state['name']}" for state in outline["states"]],
        }
        call(self.client, "keep_outline", named, plan)

    def outline(self, machine: str, digest: str) -> dict[str, Any] | None:
        """Return the outline that is kept under a digest; None if there is none in our form."""
        found = read(self.client, "HGET", self.keys.outlines(), f"{machine} {digest}")
        outline = dict(json.loads(found)) if found is not None else {}
        return outline if outline.get("form") == FORM else None

    def states(self) -> dict[str, set[str]]:
        """Return all states that the kept outlines of each machine have."""
        found: dict[str, set[str]] = defaultdict(set)
        for member in read(self.client, "SMEMBERS", self.keys.table_states()):
            machine, _, state = member.decode().partition(" ")
            found[machine].add(state)
        return dict(found)

    def applied(self) -> dict[str, Applied]:
        """Return the table by which workers work, of each machine that has one noted."""
        found = dict(read(self.client, "HGETALL", self.keys.applied_tables()))
        return {machine.decode(): _applied_in(text.decode()) for machine, text in found.items()}

    def replaced(self) -> dict[str, str]:
        """Return the digest of the table that was applied before, of each machine with one."""
        found = dict(read(self.client, "HGETALL", self.keys.replaced_tables()))
        return {machine.decode(): digest.decode() for machine, digest in found.items()}

    def lock_moves(self, holder: str, period_ms: int) -> str:
        """Let one process at a time move records, for `period_ms`, 0 to free it.

        Return the holder; it is another one if the lock is held.
        """
        plan = {"holder": holder, "period_ms": period_ms}
        found = call(self.client, "lock", {"lock": self.keys.moves_lock()}, plan)
        return str(found[1].decode())

    def apply(self, machine: str, digest: str, *, expected: str, by: str) -> bool:
        """Make a table the applied one, if the `expected` one still is; '' stands for none.

        Return whether it is applied now. Its outline must have been kept before.
        """
        named = {"applied": self.keys.applied_tables(), "replaced": self.keys.replaced_tables()}
        plan = {"machine": machine, "digest": digest, "expected": expected, "by": by}
        (status,) = call(self.client, "apply_table", named, plan)
        return bool(status == b"applied")

    def announce(self, process: Process) -> None:
        """Say that a process is at work; that is forgotten after SILENCE_MS without a repeat."""
        text = json.dumps(asdict(process), separators=(",", ":"))
        plan = {"name": process.name, "said": text, "silence_ms": SILENCE_MS}
        call(self.client, "announce", self._announced(), plan)

    def withdraw(self, name: str) -> None:
        """Say that a process ends."""
        call(self.client, "withdraw", self._announced(), {"name": name})

    def processes(self, within_ms: int = SILENCE_MS) -> list[Process]:
        """Return the processes that have announced themselves within this time, by name.

        What is damaged in the store is left out.
        """
        found = []
        plan = {"silence_ms": within_ms}
        for text in call(self.client, "list_facts", self._announced(), plan)[1::2]:
            try:
                found.append(_PROCESS.validate_json(text))
            except UNREADABLE:
                continue
        return sorted(found, key=lambda process: process.name)

    def _announced(self) -> dict[str, str]:
        return {"facts": self.keys.processes(), "announced": self.keys.processes_announced()}


def _applied_in(text: str) -> Applied:
    digest, at_ms, by = text.split(" ", 2)
    return Applied(digest, by, int(at_ms))
