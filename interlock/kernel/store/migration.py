"""Rewrites a store of another format as this version keeps it, or back: fenced and in batches.

A partition is marked while it is rewritten. A process that has opened the store looks for the mark
before it writes, at least every GUARD_S, and writes nothing more once it has met it. Versions that
have written the formats up to 3 look for it only as they open the store or sweep it: their
processes have to be stopped before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from time import sleep
from typing import Any

from interlock.kernel.errors import StoreError, StoreFormatError
from interlock.kernel.machine import Machine
from interlock.kernel.record import PARTITIONS, partition_of
from interlock.kernel.store.codec import Pairs, fields
from interlock.kernel.store.format import FORMAT, OF_FORMAT, release, text_of
from interlock.kernel.store.format_steps import (
    STEPS,
    TIMER,
    CannotMigrateError,
    FormatStep,
    Stored,
)
from interlock.kernel.store.keys import Keys, KeysOf
from interlock.kernel.store.scripts import GUARD_S, Client, call_all, read_all
from interlock.kernel.store.tables import Tables
from interlock.kernel.store.titles import names_by

BATCH = 500  # keys in one round trip
QUIET_MS = 60_000  # a beat begins several sweeps in this time
ANNOUNCED_MS = 130_000  # a process announces itself every 60 s
FENCE_S = (
    GUARD_S + 3.0
)  # by then a client has met the mark, and a call that it made before has ended
FAULTS_SHOWN = 5
Fields = Mapping[str, str]


class StoreAtWorkError(StoreError):
    """Processes are at work on a store that is to be migrated. Stop them first."""


@dataclass(frozen=True, slots=True)
class FormatPlan:
    """The formats that partitions have, and how many records a migration would rewrite.

    A format below 0 is one from which a migration has begun and has not ended.
    """

    formats: dict[int, int]  # how many partitions have it, by format
    target: int
    records: int


@dataclass(frozen=True, slots=True)
class Migration:
    """The migration of a deployment's store to a format, ours or an older one of the last three."""

    client: Client
    keys: Keys
    machines: Mapping[str, Machine]
    target: int = FORMAT

    def plan(self) -> FormatPlan | None:
        """Return what would be done, None if the store has the format. Changes nothing.

        Raises StoreFormatError where the format is newer than ours, CannotMigrateError where a
        record has what the target cannot keep, or is damaged.
        """
        if not (others := self._others()):
            return None
        return FormatPlan(
            dict(Counter(filter(None, others.values()))), self.target, self._try_all()
        )

    def apply(self, on_batch: Callable[[], None]) -> int:
        """Migrate every partition that has another format; return how many records changed.

        `on_batch` is called before each batch. It may be killed at any time and repeated.

        Raises as `plan` before anything is changed, and StoreAtWorkError while processes are at
        work on the store.
        """
        if not (others := self._others()):
            return 0
        self._refuse_at_work()
        self._try_all()
        on_batch()
        # Below both formats: whoever repeats it, in whatever direction, makes all of these steps.
        mark = -min(self.target, *(abs(number) or self.target for number in others.values()))
        self._mark(others, mark)
        sleep(FENCE_S)
        written = 0
        names = self._names()
        while batch := list(islice(names, BATCH)):
            on_batch()
            written += self._rewrite(batch, mark)
        self._mark(dict.fromkeys(others, mark), self.target)
        return written

    def _others(self) -> dict[int, int]:
        """Return the partitions to migrate, each with its format.

        It is 0 where none is noted, and below 0 while it changes.
        """
        metas = [self.keys.meta(at) for at in range(PARTITIONS)]
        found = read_all(self.client, [("HMGET", meta, *OF_FORMAT) for meta in metas])
        for number, partitions, version in found:
            if number is not None:
                self._refuse_unknown(int(number), int(partitions), text_of(version))
        others = {
            at: int(row[0] or 0) for at, row in enumerate(found) if int(row[0] or 0) != self.target
        }
        return others if any(others.values()) else {}

    def _refuse_unknown(self, number: int, partitions: int, version: str) -> None:
        known = number == FORMAT or abs(number) in STEPS
        if not known or partitions != PARTITIONS:
            raise StoreFormatError(
                self.keys.prefix, (number, partitions), (FORMAT, PARTITIONS), version
            )
        if self.target != FORMAT and abs(number) < self.target:
            raise CannotMigrateError(
                f"the store has format {abs(number)}, at least in part, which is older than"
                f" {self.target}: run `interlock apply` first"
            )

    def _refuse_at_work(self) -> None:
        """Raise StoreAtWorkError if processes are announced, or a sweep has passed just now."""
        running = Tables(self.client, self.keys).processes(ANNOUNCED_MS)
        if running:
            names = ", ".join(
                f"{one.name} ({one.kind}, Interlock {one.version})" for one in running
            )
            raise StoreAtWorkError(
                f"processes are at work on the store: {names}. Stop them and all callers, then"
                " repeat the command; one that was killed is forgotten after"
                f" {ANNOUNCED_MS // 1_000} s"
            )
        # Processes of the first formats do not announce themselves, but their sweeps are noted.
        passes = [("HGET", self.keys.meta(at), "last_pass") for at in range(PARTITIONS)]
        (seconds, _), *passed = read_all(self.client, [("TIME",), *passes])
        since_ms = int(seconds) * 1_000 - max(int(at or 0) for at in passed)
        if since_ms < QUIET_MS:
            raise StoreAtWorkError(
                "processes are at work on the store: a sweep passed"
                f" {max(since_ms, 0) // 1_000} s ago. Stop all workers, the beat, the API, the"
                f" console and all callers of the other version, wait for {QUIET_MS // 1_000} s,"
                " then repeat the command"
            )

    def _mark(self, before: Mapping[int, int], after: int) -> None:
        """Give partitions another format. Raises StoreFormatError if it has changed meanwhile."""
        version = "" if 0 < after < FORMAT else release()
        plan = {"after": str(after), "partitions": PARTITIONS, "version": version}
        calls = [
            (self.keys.in_partition(at), plan | {"before": str(number or "")})
            for at, number in before.items()
        ]
        for status, found in call_all(self.client, "mark_format", calls):
            if status == b"other":
                written = (int(found or 0), PARTITIONS)
                raise StoreFormatError(self.keys.prefix, written, (FORMAT, PARTITIONS))

    def _names(self) -> Iterator[str]:
        """Yield the keys of all partitions, some perhaps twice."""
        pattern = f"{_escaped(self.keys.prefix)}:{{p??}}:*"
        for key in self.client.scan_iter(match=pattern, count=1_000):
            yield key.decode()

    def _try_all(self) -> int:
        """Return how many records would change. Raises CannotMigrateError where one cannot."""
        names = self._names()
        changed, faults = 0, []
        while batch := list(islice(names, BATCH)):
            for stored in self._read(batch):
                try:
                    changed += self._after(stored) != stored
                except CannotMigrateError as refusal:
                    faults.append(str(refusal))
        if faults:
            more = f"; and {len(faults) - FAULTS_SHOWN} more" if len(faults) > FAULTS_SHOWN else ""
            raise CannotMigrateError(
                f"the store cannot have format {self.target}:"
                f" {'; '.join(faults[:FAULTS_SHOWN])}{more}. Nothing was changed"
            )
        return changed

    def _read(self, names: Sequence[str]) -> Iterator[Stored]:
        """Yield the records among these keys."""
        ids = [name.partition("}:r:")[2] for name in names if self._word_of(name) == "r"]
        keys = [key for one in ids for key in (self.keys.record(one), self.keys.counters(one))]
        found = iter(read_all(self.client, [("HGETALL", key) for key in keys]))
        for record_id, pairs, counters in zip(ids, found, found, strict=True):
            if pairs:
                yield Stored(record_id, _texts(pairs), _texts(counters))

    def _steps(self) -> list[tuple[FormatStep, bool]]:
        """Return the steps to the target in order, and whether each goes forward."""
        if self.target == FORMAT:
            return [(STEPS[number], True) for number in sorted(STEPS)]
        back = sorted((number for number in STEPS if number >= self.target), reverse=True)
        return [(STEPS[number], False) for number in back]

    def _after(self, stored: Stored) -> Stored:
        """Return a record as the target has it. Raises CannotMigrateError."""
        try:
            for step, is_forward in self._steps():
                stored = (step.forward if is_forward else step.back)(stored, self.machines)
        except (LookupError, ValueError) as fault:
            raise CannotMigrateError(f"{stored.id} is damaged: {fault!r}") from fault
        return stored

    def _rewrite(self, names: Sequence[str], mark: int) -> int:
        """Rewrite the records among these keys, and rename the others; return how many records."""
        self._rename(names, mark)
        written = 0
        waiting = list(names)
        while waiting:
            changes = {
                stored.id: rewriting(self.keys, stored, after)
                for stored in self._read(waiting)
                if (after := self._after(stored)) != stored
            }
            calls = [(named, plan | {"mark": str(mark)}) for named, plan in changes.values()]
            replies = [reply[0] for reply in call_all(self.client, "rewrite_record", calls)]
            self._refuse_fenced(replies)
            written += replies.count(b"written")
            answers = zip(changes, replies, strict=True)
            waiting = [self.keys.record(one) for one, reply in answers if reply == b"moved"]
        return written

    def _rename(self, names: Sequence[str], mark: int) -> None:
        calls: list[tuple[KeysOf, dict[str, Any]]] = []
        for name in names:
            head, _, tail = name.partition("}:")
            word, colon, rest = tail.partition(":")
            items: Fields = {}
            renamed = word
            for step, is_forward in self._steps():
                after = (step.keys if is_forward else turned(step.keys)).get(renamed)
                if after is not None:
                    fields = step.items.get(after if is_forward else renamed, {})
                    items = fields if is_forward else turned(fields)
                    renamed = after
            if renamed != word:
                after = f"{head}}}:{renamed}{colon}{rest}"
                named = self.keys.in_partition(int(head[-2:]), key=name, renamed=after)
                pairs = [part for pair in items.items() for part in pair]
                calls.append((named, {"mark": str(mark), "names": pairs}))
        self._refuse_fenced([reply[0] for reply in call_all(self.client, "rename_key", calls)])

    def _refuse_fenced(self, replies: Sequence[bytes]) -> None:
        if b"fenced" in replies:
            raise StoreAtWorkError(
                "another process has ended this migration, or has begun another one: look at the"
                " store by `interlock plan`, and repeat the command if there is something to do"
            )

    def _word_of(self, name: str) -> str:
        return name.partition("}:")[2].partition(":")[0]


def rewriting(keys: Keys, before: Stored, after: Stored) -> tuple[KeysOf, dict[str, Any]]:
    """Return the keys and the plan by which a script rewrites a record that has changed."""
    created = keys.creation_index(partition_of(before.id), after.fields["machine"])
    fields = [
        *_changed("record", before.fields, after.fields),
        *_changed("counters", before.counters, after.counters),
    ]
    members: list[tuple[str, str, str | bool]] = []
    for _, name, _, line in _changed("record", _timers(before), _timers(after)):
        due_at, _, left, *_ = str(line or "0 0 0").split(" ")
        # Only the timer of a record that is not paused is in the index.
        members.append(("timers", f"{before.id}:{name[2:]}", left == "-" and due_at))
    titles = before.fields.get("title"), after.fields.get("title")
    if titles[0] != titles[1]:
        is_listed = titles[1] is not None
        title = titles[1] if titles[1] is not None else titles[0]
        members.append(("creation_index", before.id, is_listed and after.fields["created"]))
        found_by = names_by(before.id, title or "")
        members += [("search_index", name, is_listed and "0") for name in found_by]
    return keys.of(before.id, creation_index=created), {"fields": fields, "members": members}


def _changed(
    key: str, before: Fields, after: Fields
) -> list[tuple[str, str, str | bool, str | bool]]:
    """Return each field of a key that differs, before and after; False where there is none."""
    return [
        (key, name, before.get(name, False), after.get(name, False))
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


def _timers(stored: Stored) -> Fields:
    return {name: line for name, line in stored.fields.items() if name.startswith(TIMER)}


def turned(names: Fields) -> dict[str, str]:
    """Return names of before by those of after."""
    return {after: before for before, after in names.items()}


def _texts(pairs: Pairs) -> dict[str, str]:
    # A step changes no text that a user has written, which may be damaged.
    return {name: value.decode(errors="surrogateescape") for name, value in fields(pairs).items()}


def _escaped(text: str) -> str:
    """Return a text so that SCAN takes each of its characters as it is."""
    return "".join(f"\\{letter}" if letter in r"*?[]\^" else letter for letter in text)
