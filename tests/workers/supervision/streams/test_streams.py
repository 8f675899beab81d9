"""The streams for each format of output; none of them raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workers.supervision.reports import (
    AgentReady,
    RejectedLine,
    ToolCompleted,
    UsageTotal,
)
from interlock.workers.supervision.streams import STREAMS, report_stream
from interlock.workers.supervision.streams.interlock import LINE_BYTES_MAX, ReportKinds
from tests.any_text import any_text
from tests.workers.supervision.streams.sample import (
    SAMPLE,
    fed,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.binary()))
def test_any_bytes_are_read_without_an_error(lines: list[bytes]) -> None:
    for make in STREAMS.values():
        for kinds in ReportKinds:
            stream = make(kinds)
            for one in lines:
                stream.feed(one)


@given(st.data())
def test_any_value_in_any_field_of_the_sample_is_read_without_an_error(data: st.DataObject) -> None:
    message = json.loads(data.draw(st.sampled_from(SAMPLE)))
    place: Any = message
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else [0]))
        inner = place[key]
        deeper = isinstance(inner, dict | list) and len(inner) > 0
        if not deeper or data.draw(st.booleans()):
            break
        place = inner
    place[key] = data.draw(JSON)

    for one in fed([*SAMPLE, json.dumps(message).encode()]):
        if isinstance(one, RejectedLine):
            one.reason.encode()


@given(st.permutations(SAMPLE))
def test_lines_in_any_order_end_no_tool_twice_and_cost_once(lines: list[bytes]) -> None:
    reports = fed(lines)

    ended = [report.id for report in reports if isinstance(report, ToolCompleted)]
    assert len(ended) == len(set(ended))
    totals = [report for report in reports if isinstance(report, UsageTotal)]
    assert [total.added.cost_micro for total in totals] == [87_654]


def test_plain_output_has_no_report_and_our_own_lines_are_read_one_by_one() -> None:
    ready = b'{"type": "ready"}\n'

    def feed(name: str, given_line: bytes) -> list[object]:
        return list(STREAMS[name](ReportKinds.AGENT).feed(given_line))

    assert feed("plain", ready) == []
    assert feed("interlock", ready) == [AgentReady()]
    assert feed("interlock", b"no") == [
        RejectedLine("the line is not JSON: Expecting value at column 1")
    ]


@pytest.mark.parametrize("kinds", ReportKinds)
def test_blank_lines_have_no_report(kinds: ReportKinds) -> None:
    assert [list(make(kinds).feed(b" \n")) for make in STREAMS.values()] == [[], [], []]


@pytest.mark.parametrize(
    "garbage",
    [b"{", b"[]", b"\xff", b'{"type": "result", "type": "result"}', b"x" * (LINE_BYTES_MAX + 1)],
)
@pytest.mark.parametrize("name", ["interlock", "claude"])
def test_garbage_is_rejected(name: str, garbage: bytes) -> None:
    reports = STREAMS[name](ReportKinds.SESSION).feed(garbage)

    assert [type(report) for report in reports] == [RejectedLine]


def test_only_plain_output_cannot_report_a_result() -> None:
    streams = {name: make(ReportKinds.SESSION) for name, make in STREAMS.items()}

    assert {name for name, stream in streams.items() if not stream.reports_result} == {"plain"}


def test_an_agent_can_be_declared_with_one_of_three_streams() -> None:
    assert sorted(STREAMS) == ["claude", "interlock", "plain"]


def test_a_stream_may_accept_some_types_of_our_own_lines_alone() -> None:
    stream = report_stream(only=("ready", "mail"))

    assert stream.feed(b'{"type": "ready"}') == (AgentReady(),)
    assert stream.feed(b'{"type": "blocked", "text": "x"}') == (
        RejectedLine("'blocked' is no type of report; known: ready, mail", ends=True),
    )
