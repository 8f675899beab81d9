"""Turns values into the bytes of the store and back, and refuses what cannot be stored."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from interlock.kernel.effect import Kind
from interlock.kernel.errors import InvalidPayloadError, TableFunctionError, UnreadableRecordError
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.machine import Machine
from interlock.kernel.moving import as_read
from interlock.kernel.record import Entry, Record, RecordContent, RecordId, TimerEntry, Version
from interlock.kernel.table import Owed

PAYLOAD_BYTES_MAX = 256 * 1024
# A record's data grows with every proposal, answer and result; refusing it would strand the record.
DATA_BYTES_MAX = 16 * PAYLOAD_BYTES_MAX
DEPTH_MAX = 32
# What reading a record, or a line of a log, raises that is damaged, and what a function does then.
UNREADABLE = (
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    TableFunctionError,
)
NO_MACHINES: Mapping[str, Machine] = {}
CONTENT_FIELDS = ("machine", "state", "version", "data", "title", "since", "schema")
_CANONICAL = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode
_SURROGATE = re.compile("[\ud800-\udfff]")
# Python keeps a byte that is not UTF-8 as the half of a surrogate pair with this offset.
_BYTES_FROM, _BYTES_TO = 0xDC80, 0xDCFF

Pairs = dict[bytes, bytes] | Iterable[bytes]  # a reply of HGETALL: flat from a script and RESP 2


def encode(value: Any, what: str, bytes_max: int = PAYLOAD_BYTES_MAX) -> bytes:
    """Return canonical JSON bytes. Raises InvalidPayloadError for what JSON or limits forbid."""
    try:
        text = _CANONICAL(value)
        encoded = text.encode()
    except UnicodeEncodeError:
        raise InvalidPayloadError(what, ["it has a lone surrogate, which is no text"]) from None
    except RecursionError:
        raise InvalidPayloadError(what, [f"it is nested deeper than {DEPTH_MAX} levels"]) from None
    except (TypeError, ValueError) as refusal:
        raise InvalidPayloadError(what, [f"it is not JSON: {refusal}"]) from None
    if len(encoded) > bytes_max:
        problem = f"it has {len(encoded)} bytes, the limit is {bytes_max}; pass a reference instead"
        raise InvalidPayloadError(what, [problem])
    if depth_of(text) > DEPTH_MAX:
        raise InvalidPayloadError(what, [f"it is nested deeper than {DEPTH_MAX} levels"])
    return encoded


def storable(value: Any) -> Any:
    r"""Return plain data in which every text can be stored: a byte that is no UTF-8 is \xe9.

    Python has such bytes as halves of surrogate pairs, in the names of files for example.
    """
    match value:
        case str():
            return value if value.isascii() else _SURROGATE.sub(_escape_of_half, value)
        case Mapping():
            return {storable(name): storable(part) for name, part in value.items()}
        case list() | tuple():
            return [storable(part) for part in value]
        case _:
            return value


def depth_of(text: str) -> int:
    """Return how deep the brackets of a JSON text are nested."""
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return 0
    depth = deepest = 0
    quoted = escaped = False
    for letter in text:
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = letter == "\\", letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in "]}":
            depth -= 1
    return deepest


def digest(*parts: bytes | str) -> str:
    """Return a short hash of the parts, in order. What is no text is refused where it is stored."""
    joined = hashlib.sha256()
    for part in parts:
        joined.update(part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass"))
        joined.update(b"\0")
    return joined.hexdigest()[:16]


def nonce_of(op_id: str) -> str:
    """Return a short hash of an op-id, a part of the ids of the effects that its call creates."""
    return hashlib.sha256(op_id.encode()).hexdigest()[:10]


def fields(pairs: Pairs) -> dict[str, bytes]:
    """Turn a reply of HGETALL into a dict with its names as text."""
    if isinstance(pairs, dict):
        return {key.decode(): value for key, value in pairs.items()}
    flat = iter(pairs)
    return {key.decode(): value for key, value in zip(flat, flat, strict=True)}


def counts(pairs: Pairs) -> dict[str, int]:
    """Turn a reply of HGETALL for a hash of integers into a dict."""
    return {name: int(value) for name, value in fields(pairs).items()}


@lru_cache(maxsize=4_096)  # the same record is read again and again: by pages, and while it changes
def entry_of(suffix: str, line: str, slots: str = "") -> Entry:
    """Parse an effect's entry; the order of values is that of lua/part/entry.lua.

    `slots` is what the record has beside it: the name of the slots that the effect needs.
    """
    values = ["" if value == "-" else value for value in line.split(" ")]
    name, kind, state, token, holder, countdown, _reserved = values[:7]
    (
        attempts,
        attempts_max,
        losses,
        lease_until,
        kill_by,
        not_before,
        _begun,
        no_restart,
        _once,
        interrupts,
        _acknowledged,
        _polls,
        _grace_ms,
        _fires_exhausted,
        exclusive,
    ) = values[7:]
    return Entry(
        suffix=suffix,
        name=name,
        kind=Kind(kind),
        state=state,
        token=token,
        holder=holder,
        attempts=int(attempts),
        attempts_max=int(attempts_max),
        losses=max(-int(losses), 0),  # stored as a negative number
        lease_until=int(lease_until),
        kill_by=int(kill_by),
        no_restart=no_restart == "1",
        posted=int(interrupts),
        exclusive=exclusive == "1",
        countdown=countdown,
        not_before=int(not_before),
        slots=slots,
    )


def new_entry(owed: Owed, *, fires: bool) -> str:
    """Return the entry of an effect that a record owes newly, as entry_of reads it."""
    return _entry(owed, "owed - -", "0", "0 0", "0 0", fires=fires)


def leased_entry(owed: Owed, holder: str, *, fires: bool) -> str:
    """Return the entry of an effect that is leased as it is created.

    It is a format, for which a script has the token, the end of the lease, and kill_by.
    """
    begun = f"1 {int(owed.once)}"  # and whether it may not be restarted from then on
    return _entry(owed, f"leased %s {holder}", "1", "%s %s", begun, fires=fires)


def _entry(owed: Owed, held: str, attempt: str, ends: str, begun: str, *, fires: bool) -> str:
    effect = owed.effect
    own = f"{int(owed.once)} 0 0 0 {effect.grace_ms} {int(fires)} {int(effect.exclusive)}"
    attempts = f"{attempt} {effect.attempts_max} 0 {ends} 0 {begun}"
    return f"{effect.name} {owed.kind} {held} {owed.countdown or '-'} - {attempts} {own}"


def timer_of(name: str, line: str) -> TimerEntry:
    """Parse a timer of a record; the order of values is that of lua/part/timer.lua."""
    due_at, version, left, fired = line.split(" ")[:4]
    left_ms = None if left == "-" else int(left)
    return TimerEntry(name, int(due_at), int(version), left_ms, int(fired))


@contextmanager
def reading(record_id: str) -> Iterator[None]:
    """Read a record that may be damaged. Raises UnreadableRecordError, which names it, if it is."""
    try:
        yield
    except UNREADABLE as fault:
        raise _unreadable(record_id, fault) from fault


def _unreadable(record_id: str, fault: Exception) -> UnreadableRecordError:
    """Return an error that names the record and says why it could not be read.

    `fault` is the exception that reading it raised.
    """
    if isinstance(fault, UnreadableRecordError):
        return fault
    if isinstance(fault, TableFunctionError):
        if fault.function == "migrate":
            return UnreadableRecordError(record_id, f"{fault}", "repair that function")
        if isinstance(fault.__cause__, KeyError):
            return UnreadableRecordError(record_id, f"{_said(fault.__cause__)}; {fault}")
    return UnreadableRecordError(record_id, _said(fault))


def _said(fault: Exception) -> str:
    if isinstance(fault, KeyError):
        return f"its field {fault} is missing"
    return f"{fault}"


def record_of(
    record_id: str,
    pairs: Pairs,
    counters: Pairs = (),
    machines: Mapping[str, Machine] = NO_MACHINES,
) -> Record:
    """Parse a record as it is stored; as its machine reads it now, if it is one of these.

    Raises UnreadableRecordError.
    """
    with reading(record_id):
        record = _record_of(record_id, pairs, counters)
        machine = machines.get(record.machine)
        return as_read(machine, record) if machine else record


def _record_of(record_id: str, pairs: Pairs, counters: Pairs) -> Record:
    kept = fields(pairs)
    data = kept.pop("data")
    text = {name: value.decode() for name, value in kept.items()}
    marked = sorted(name for name in text if ":" in name)  # e: effects, t: timers, ...
    return Record(
        id=RecordId(record_id),
        machine=text["machine"],
        state=text["state"],
        version=Version(int(text["version"])),
        data=json.loads(data.decode()),
        entered=Version(int(text["entered"])),
        schema=int(text["schema"]),
        title=text["title"],
        since_ms=int(text["since"]),
        created_ms=int(text["created"]),
        priority=int(text["priority"]),
        paused=text.get("paused") == "1",
        counted=text["countdown"],
        parent_machine=text.get("parent_machine", ""),
        entries=tuple(
            entry_of(n[2:], text[n], text.get(f"s:{n[2:]}", "")) for n in marked if n[:2] == "e:"
        ),
        timers=tuple(timer_of(n[2:], text[n]) for n in marked if n[:2] == "t:"),
        counters=counts(counters),
    )


def content_of(record_id: str, values: Sequence[bytes]) -> RecordContent:
    """Parse the values of CONTENT_FIELDS of a record as it is stored."""
    machine, state, version, data, title, since, schema = (value.decode() for value in values)
    return RecordContent(
        id=RecordId(record_id),
        machine=machine,
        state=state,
        version=Version(int(version)),
        data=json.loads(data),
        title=title,
        since_ms=int(since),
        schema=int(schema),
    )


def readable_record_of(
    record_id: str, pairs: Pairs, counters: Pairs, machines: Mapping[str, Machine]
) -> Record | None:
    """Parse a record as it is stored; None if it is damaged, or of none of these machines."""
    try:
        record = record_of(record_id, pairs, counters, machines)
        return record if _is_readable(record, machines) else None
    except UNREADABLE:
        return None


def readable_content_of(
    record_id: str, values: Sequence[bytes], machines: Mapping[str, Machine]
) -> RecordContent | None:
    """Parse the content of a record; None if it is damaged, or of none of these machines."""
    try:
        content = content_of(record_id, values)
        content = as_read(machines[content.machine], content)
        return content if _is_readable(content, machines) else None
    except UNREADABLE:
        return None


def _is_readable(content: RecordContent, machines: Mapping[str, Machine]) -> bool:
    """Whether the machine of a record can tell whether it waits for a person; may raise too."""
    machines[content.machine].stage(content.state).waits_for_person(content.data)
    return isinstance(content.data, dict)


def event_bytes(event: Event) -> bytes:
    """Return an event as the log keeps it, without its time, which the store adds."""
    kept: dict[str, Any] = {
        "trigger": event.trigger,
        "from": event.source,
        "to": event.target,
        "payload": event.payload,
        "actor": event.cause.actor,
        "op": event.op_id,
        "table": event.table,
        "hash": event.data_hash,
    }
    optional = {
        "reason": event.cause.reason,
        "codes": list(event.cause.codes),
        "facts": event.facts,
        "why": event.explanation,
        "deltas": event.deltas,
        "says": event.says,
    }
    kept |= {name: value for name, value in optional.items() if value}
    return encode(kept, "the event", 2 * DATA_BYTES_MAX)


def lines_of(record_id: str, page: Any) -> list[tuple[str, Event | Note]] | None:
    """Return lines of a log with their positions, or None if one of them cannot be read."""
    try:
        return [(at.decode(), line_of(record_id, at, dict(pairs))) for at, pairs in page]
    except UNREADABLE:
        return None


def line_of(record_id: str, position: bytes, pairs: Mapping[bytes, bytes]) -> Event | Note:
    """Parse one line of a log."""
    at_ms, version = int(pairs[b"at"]), int(position.split(b"-")[0])
    if b"note" in pairs:
        detail = json.loads(pairs[b"detail"])
        return Note(
            record_id=RecordId(record_id),
            position=position.decode(),
            kind=pairs[b"note"].decode(),
            detail=detail,
            at_ms=at_ms,
            deltas=detail.get("deltas", {}),
        )
    kept = json.loads(pairs[b"event"])
    return Event(
        record_id=RecordId(record_id),
        version=Version(version),
        trigger=kept["trigger"],
        source=kept["from"],
        target=kept["to"],
        payload=kept["payload"],
        cause=Cause(kept["actor"], kept.get("reason", ""), tuple(kept.get("codes", ()))),
        facts=kept.get("facts", {}),
        explanation=kept.get("why"),
        at_ms=at_ms,
        table=kept["table"],
        data_hash=kept["hash"],
        op_id=kept["op"],
        deltas=kept.get("deltas", {}),
        says=kept.get("says", ""),
    )


def _escape_of_half(found: re.Match[str]) -> str:
    code = ord(found[0])
    is_byte = _BYTES_FROM <= code <= _BYTES_TO
    return f"\\x{code - 0xDC00:02x}" if is_byte else f"\\u{code:04x}"
