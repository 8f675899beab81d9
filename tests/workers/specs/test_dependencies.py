"""Rings of jobs that wait for each other, against the plain way to find them."""

from __future__ import annotations

import itertools
import time

from hypothesis import given
from hypothesis import strategies as st

from interlock.workers.specs.dependencies import rings_in

NAMES = tuple("abcdefgh")
GRAPHS = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True, max_size=4)
).map(lambda graph: {name: [one for one in after if one in graph] for name, after in graph.items()})


def reached(graph: dict[str, list[str]], start: str) -> set[str]:
    """Return whom a job waits for at any distance, the plain way."""
    found: set[str] = set()
    look = list(graph[start])
    while look:
        one = look.pop()
        if one not in found:
            found.add(one)
            look += graph[one]
    return found


@given(graph=GRAPHS)
def test_each_tangle_of_jobs_has_one_ring(graph: dict[str, list[str]]) -> None:
    order = list(graph)
    far = {name: reached(graph, name) for name in graph}
    tangles = {
        frozenset(one for one in far[name] if name in far[one])
        for name in graph
        if name in far[name]
    }

    rings = rings_in(graph)

    assert len(rings) == len(tangles)
    for ring in rings:
        tangle = next(one for one in tangles if ring[0] in one)
        assert set(ring) <= tangle
        assert ring[0] == ring[-1] == min(tangle, key=order.index)
        assert len(set(ring)) == len(ring) - 1
        assert all(after in graph[name] for name, after in itertools.pairwise(ring))
    firsts = [order.index(ring[0]) for ring in rings]
    assert firsts == sorted(set(firsts))


@given(graph=GRAPHS)
def test_a_ring_is_the_shortest_through_its_first(graph: dict[str, list[str]]) -> None:
    for ring in rings_in(graph):
        distance, layer = 0, {ring[0]}
        while ring[0] not in layer or not distance:
            layer = {one for name in layer for one in graph[name]}
            distance += 1
        assert len(ring) == distance + 1


def test_a_job_that_waits_for_itself_is_a_ring() -> None:
    assert rings_in({"a": ["a", "b"], "b": []}) == [("a", "a")]
    assert rings_in({}) == []


def test_many_jobs_take_a_time_that_grows_with_them_and_no_depth() -> None:
    count = 20_000
    chain = {str(n): [str(n - 1)] if n else [] for n in range(count)}
    layers = {str(n): [str(m) for m in range(max(0, n - 50), n)] for n in range(count)}
    pairs = {str(n): [str(n ^ 1)] for n in range(count)}
    began = time.monotonic()

    assert rings_in(chain) == rings_in(layers) == []
    (ring,) = rings_in(chain | {"0": [str(count - 1)]})
    assert len(ring) == count + 1
    assert len(rings_in(pairs)) == count // 2

    assert time.monotonic() - began < 20  # it takes one second where nothing else runs
