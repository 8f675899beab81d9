"""The scripts that restore a family; interlock/kernel/restoration.py says which."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.kernel.event import Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.moving import as_read
from interlock.kernel.record import Record, ancestors, partition_of
from interlock.kernel.store import codec
from interlock.kernel.store.commands import Commit, timers_plan
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call
from interlock.kernel.store.titles import title_plan
from interlock.kernel.table import Terminal

PAGE = 1_000
# Within what a stream takes and a script counts exactly.
POSITION = re.compile("[0-9]{1,15}-[0-9]{1,15}")
Line = Event | Note


@dataclass(frozen=True, slots=True)
class Lock:
    """A name that a family holds while its records are restored, and its holder."""

    name: str
    holder: str


class Restores:
    """Writes restored records, over one client. Every call may be repeated."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def restore(
        self,
        machine: Machine,
        record: Record,
        creation_digest: str,
        lines: Sequence[Line],
        lock: Lock,
        sums: Mapping[str, int],
    ) -> str:
        """Write a record with its log and its sums.

        Returns restored, present, taken, pruned, leftovers, held or closed.
        """
        keys, partition = self.keys, partition_of(record.id)
        above = ancestors(record.id)
        now = as_read(machine, record)
        stage = machine.stage(now.state)
        plan: dict[str, Any] = {
            "id": record.id,
            "machine": machine.name,
            "state": record.state,
            "version": str(record.version),
            "entered": str(record.entered),
            "schema": str(record.schema),
            "since": str(record.since_ms),
            "created": str(record.created_ms),
            "priority": str(record.priority),
            "digest": creation_digest,
            **title_plan(record),
            "ends": isinstance(stage, Terminal),
            "timers": timers_plan(stage.due(now.data)),
            "sums": {name: n for name, n in sums.items() if n},
            "hold": lock.name,
            "holder": lock.holder,
            "read_up_to": _read_upto(machine, record),
            "data": codec.encode(record.data, "the data", codec.DATA_BYTES_MAX),
            "lines": [part for line in lines for part in _arguments(line)],
        }
        named = keys.of(
            record.id,
            state_index=keys.state_index(record.id, machine.name, record.state),
            parent=keys.record(above[-1] if above else record.id),
            creation_index=keys.creation_index(partition, machine.name),
            chain=keys.chain(record.id),
        )
        status: bytes = call(self.client, "restore", named, plan)[0]
        return status.decode()

    def restore_family_log(self, root: str, commits: Sequence[Commit], lock: Lock) -> str:
        """Write commits into a family's log, the oldest first. Returns restored or closed."""
        named, plan = self.keys.of(root), {"name": lock.name, "holder": lock.holder}
        status = b"restored"
        for start in range(0, len(commits), PAGE):
            rows = [part for commit in commits[start : start + PAGE] for part in commit]
            status = call(self.client, "restore_family_log", named, plan | {"commits": rows})[0]
            if status != b"restored":
                break
        return status.decode()


def _read_upto(machine: Machine, record: Record) -> str:
    """Return the position up to which a record's inbox was read, or ''."""
    has_inbox = machine.inbox and not machine.placement.id_prefix
    read = str(record.data.get("acknowledged", "")) if has_inbox else ""
    return read if POSITION.fullmatch(read) and read != "0-0" else ""


def _arguments(line: Line) -> Iterator[Any]:
    if isinstance(line, Event):
        yield from (f"{line.version}-0", "event", codec.event_bytes(line), line.at_ms)
    else:
        yield from (line.position, line.kind, codec.encode(line.detail, "the note"), line.at_ms)
