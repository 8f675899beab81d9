"""What is stored is read as it was written; a line of a log that is damaged is no fault."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.kernel.blame import PlacedError
from interlock.kernel.errors import TableFunctionError, UnreadableRecordError
from interlock.kernel.event import Cause, Event
from interlock.kernel.record import RecordId, Version
from interlock.kernel.store.codec import event_bytes, line_of, lines_of, reading
from interlock.kernel.store.rejected import _text
from tests.any_text import any_text
from tests.damage import ODD, chances, damaged, torn

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | any_text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text(max_size=5), inner),
    max_leaves=5,
)
FIELDS = st.dictionaries(any_text(max_size=5), JSON, max_size=3)


@pytest.mark.fuzz
@given(payload=FIELDS, facts=FIELDS, reason=any_text(max_size=9), op_id=any_text(max_size=9))
def test_an_event_is_read_as_it_was_written(
    payload: dict[str, Any], facts: dict[str, Any], reason: str, op_id: str
) -> None:
    cause = Cause("ann", reason, ("as:operator",))
    event = Event(
        record_id=RecordId("one"),
        version=Version(3),
        trigger="confirmed",
        source="awaiting",
        target="done",
        payload=payload,
        cause=cause,
        facts=facts,
        explanation=None,
        at_ms=7,
        table="t",
        data_hash="h",
        op_id=op_id,
        deltas={},
        says="it is so",
    )

    assert line_of("one", b"3-0", {b"at": b"7", b"event": event_bytes(event)}) == event


@pytest.mark.fuzz
@given(kind=st.sampled_from([b"event", b"detail"]), chance=chances)
@example(kind=b"detail", chance=None)
def test_a_damaged_line_of_a_log_is_no_fault(kind: bytes, chance: Random | None) -> None:
    whole = {"trigger": "x", "from": "a", "to": "b", "payload": {}, "actor": "ann", "op": "1"}
    line = {**whole, "table": "t", "hash": "h", "codes": ["x"], "deltas": {"tokens": 1}}
    # Its detail is no object.
    text = b"[]"
    if chance is not None:
        text = torn(json.dumps(damaged(line, chance)).encode(), chance)
    lines_of("one", [(b"3-0", {b"at": b"7", b"note": b"pause", kind: text})])
    lines_of("one", [(b"3-0", {b"at": b"7", kind: text})])


@pytest.mark.fuzz
@given(JSON | st.sampled_from(ODD) | st.binary(max_size=20))
def test_any_body_of_a_rejected_message_is_kept_as_text(body: object) -> None:
    text, whole = _text(body)

    assert not whole or json.loads(text) == body


def test_what_a_function_raises_for_a_record_is_said_once() -> None:
    of_migrate = table_fault("migrate", PlacedError("bad is no number (refund.py, line 7)"))

    assert said_of(of_migrate) == (
        "the record 'r-1' cannot be read: refund: migrate raised bad is no number "
        "(refund.py, line 7); repair that function"
    )
    other = said_of(table_fault("the title", ValueError("no order")))
    assert other.count("no order") == 1
    assert "`interlock verify r-1` says whether the store is damaged" in other


def said_of(fault: Exception) -> str:
    with pytest.raises(UnreadableRecordError) as raised, reading("r-1"):
        raise fault
    return str(raised.value)


def table_fault(function: str, failure: Exception) -> TableFunctionError:
    fault = TableFunctionError("refund", function, failure)
    fault.__cause__ = failure
    return fault
