"""The streams an agent can be declared with; none of them ever raises."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interlock.workers.supervision.reports import (
    AgentReady,
    RejectedLine,
    TokensUsed,
    ToolCompleted,
)
from interlock.workers.supervision.streams import STREAMS
from tests.workers.supervision.streams.sample import (
    SAMPLE,
    fed,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.binary()))
def test_any_bytes_are_read_without_an_error(lines: list[bytes]) -> None:
    for make in STREAMS.values():
        stream = make()
        for one in lines:
            stream.feed(one)


@given(st.data())
def test_any_value_in_any_place_of_the_sample_is_read_without_an_error(data: st.DataObject) -> None:
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

    ended = [one.id for one in reports if isinstance(one, ToolCompleted)]
    assert len(ended) == len(set(ended))
    cost = [one.cost_micro for one in reports if isinstance(one, TokensUsed) and one.cost_micro]
    assert cost == [87_654]


def test_plain_output_tells_nothing_and_our_own_lines_are_read_one_by_one() -> None:
    ready = b'{"type": "ready"}\n'

    assert list(STREAMS["plain"]().feed(ready)) == []
    assert list(STREAMS["interlock"]().feed(ready)) == [AgentReady()]
    assert list(STREAMS["interlock"]().feed(b"\n")) == []
    assert list(STREAMS["interlock"]().feed(b"no")) == [
        RejectedLine("the line is no JSON: Expecting value at column 1")
    ]


def test_an_agent_can_be_declared_with_one_of_three_streams() -> None:
    assert sorted(STREAMS) == ["claude", "interlock", "plain"]
