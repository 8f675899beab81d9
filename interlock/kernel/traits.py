"""The optional parts of a machine; it has at most one of each kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from interlock.kernel.errors import InvalidIdError
from interlock.kernel.record import Record
from interlock.kernel.table import Bounds, Data


def nowhere(data: Data) -> str:
    """Name no computer: any may run the effects of the record."""
    del data
    return ""


def no_sources(record: Record) -> tuple[str, ...]:
    """Name no records: decisions about a record read its ancestors alone."""
    del record
    return ()


def unrefused(trigger: str, data: Data, facts: Data) -> str:
    """Refuse no trigger to the holder of an effect."""
    del trigger, data, facts
    return ""


def _is_filled(value: Any, path: Sequence[str]) -> bool:
    if not path:
        return bool(value)
    if path[0] == "*":
        return isinstance(value, list | tuple) and any(_is_filled(one, path[1:]) for one in value)
    return isinstance(value, Mapping) and _is_filled(value.get(path[0]), path[1:])


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of a machine's records: the records above them, and the computer they run on.

    `id_prefix` are the machines of the records above, by the segments of an id before the record's
    own name. The turn `shop/turn~a` has ("backlog",): a record with the id `shop` would have to be
    of a machine called backlog. There is no such machine, so no record may have that id.

    `host` returns from the data the name of the computer on which the `local` effects of a record
    run, or ''; `Settings.host` is that of this computer. `commands` are the fields of payloads that
    name a command to run there, as `phases.*.worker.command`, where `*` is each item of a list:
    callers who may name no commands may not fill them. `needs_parent`: the parent must exist, and
    not have ended. `id_pattern` is a regular expression for the whole id of a record, and
    `id_in_words` says the same to people.
    """

    id_prefix: tuple[str, ...] = ()
    id_pattern: str = ""
    id_in_words: str = ""
    needs_parent: bool = False
    host: Callable[[Any], str] = nowhere
    commands: tuple[str, ...] = ()

    def check_id(self, machine: str, new_id: str, *, is_child: bool = False) -> None:
        """Refuse what is no id of a machine's records. A child has its id from its parent."""
        if not is_child and new_id.count("/") != len(self.id_prefix):
            names = "/".join(f"<{name}>" for name in (*self.id_prefix, machine))
            form = f"write it as {names}; what is below is created by its parent"
            alone = "a parent creates its children by itself; leave out the /"
            raise InvalidIdError(new_id, form if self.id_prefix else alone)
        if self.id_pattern and not re.fullmatch(self.id_pattern, new_id):
            raise InvalidIdError(new_id, self.id_in_words)

    def commands_in(self, payload: Data) -> list[str]:
        """Return those fields of a payload that name a command, whatever shape the payload has."""
        return [path for path in self.commands if _is_filled(payload, path.split("."))]


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """The counters of a record, and the bounds of its family.

    `bounds` returns from the data of a root what it and all below it may use, by the name of what
    is counted; `counters` what follows from a record's data, where 0 is counted at first.
    `in_family_log`: the commits of the family are listed in their order.
    """

    bounds: Callable[[Any], Bounds] | None = None
    counters: Callable[[Any], Mapping[str, int]] | None = None
    in_family_log: bool = False


@dataclass(frozen=True, slots=True)
class NewChild:
    """What a child is created from, and what it and all below it may use."""

    payload: Data
    bounds: Bounds = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Children:
    """One kind of children: a row that spawns their countdown creates a child for each entry.

    The list is read when the row is followed, and what each child is created from is kept in the
    log beside the event: every attempt to create them creates the same ones.

    `payload` returns a child's payload, and what it may use: by the parent's data, by the child's
    entry in the parent's list, and by the ids of all children in the list, in their order.
    `advance_trigger` is fired when the last of them has ended, and `lost_trigger` before that, when
    one has ended without success. `machine` is that of the children; '' is that of their parent.
    `listed_in` is the field of the parent's data that has the list, of at most NUMBER_MAX entries.
    """

    NUMBER_MAX: ClassVar[int] = 10_000

    countdown: str
    payload: Callable[[Any, Any, Sequence[str]], tuple[Data, Bounds]]
    advance_trigger: str
    lost_trigger: str = ""
    machine: str = ""
    listed_in: str = "children"

    def listed(self, data: Data, ids: Sequence[str]) -> tuple[NewChild, ...]:
        """Return the children that the data list, which will have these ids."""
        entries = data[self.listed_in]
        return tuple(NewChild(*self.payload(data, entry, ids)) for entry in entries)


@dataclass(frozen=True, slots=True)
class Prerequisites:
    """A record of the machine depends on other records, and waits until they have ended.

    The countdown counts them; no change of the state stops it. `advance_trigger` is fired when the
    last of them has ended, and `lost_trigger` when one has ended without success.
    """

    countdown: str
    advance_trigger: str
    lost_trigger: str
