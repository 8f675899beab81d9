"""The order, the cycles and the starved of a graph, compared with a simple way to find them."""

from __future__ import annotations

import itertools
import time

from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.dependencies import Dependencies

NAMES = tuple("abcdefgh")
GRAPHS = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True, max_size=4)
).map(lambda graph: {name: [one for one in after if one in graph] for name, after in graph.items()})


def reached(graph: dict[str, list[str]], start: str) -> set[str]:
    """Return the direct and indirect dependencies of a job, in a simple way."""
    found: set[str] = set()
    left = list(graph[start])
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += graph[name]
    return found


@given(graph=GRAPHS)
def test_each_cyclic_component_has_one_cycle(graph: dict[str, list[str]]) -> None:
    order = list(graph)
    far = {name: reached(graph, name) for name in graph}
    components = {
        frozenset(one for one in far[name] if name in far[one])
        for name in graph
        if name in far[name]
    }

    cycles = Dependencies(graph).cycles()

    assert len(cycles) == len(components)
    for cycle in cycles:
        component = next(one for one in components if cycle[0] in one)
        assert set(cycle) <= component
        assert cycle[0] == cycle[-1] == min(component, key=order.index)
        assert len(set(cycle)) == len(cycle) - 1
        assert all(after in graph[name] for name, after in itertools.pairwise(cycle))
    firsts = [order.index(cycle[0]) for cycle in cycles]
    assert firsts == sorted(set(firsts))


@given(graph=GRAPHS)
def test_a_cycle_is_the_shortest_through_its_first_job(graph: dict[str, list[str]]) -> None:
    for cycle in Dependencies(graph).cycles():
        distance, layer = 0, {cycle[0]}
        while cycle[0] not in layer or not distance:
            layer = {one for name in layer for one in graph[name]}
            distance += 1
        assert len(cycle) == distance + 1


def test_a_job_that_depends_on_itself_is_a_cycle() -> None:
    assert Dependencies({"a": ["a", "b"], "b": []}).cycles() == [("a", "a")]
    assert Dependencies({}).cycles() == []


def test_a_name_that_is_no_key_depends_on_nothing() -> None:
    assert Dependencies({"a": ["x", "b"], "b": ["x", "a"]}).cycles() == [("a", "b", "a")]


def test_many_jobs_take_linear_time_and_no_recursion() -> None:
    count = 20_000
    chain = {str(n): [str(n - 1)] if n else [] for n in range(count)}
    layers = {str(n): [str(m) for m in range(max(0, n - 10), n)] for n in range(count)}
    pairs = {str(n): [str(n ^ 1)] for n in range(count)}
    began = time.process_time()

    assert Dependencies(chain).cycles() == Dependencies(layers).cycles() == []
    (cycle,) = Dependencies(chain | {"0": [str(count - 1)]}).cycles()
    assert len(cycle) == count + 1
    assert len(Dependencies(pairs).cycles()) == count // 2

    assert time.process_time() - began < 20  # it takes half a second


@given(graph=GRAPHS)
def test_an_order_has_every_task_after_those_that_it_waits_for(
    graph: dict[str, list[str]],
) -> None:
    order = Dependencies(graph).in_order(key=lambda name: name)

    assert sorted(order) == sorted(graph)
    for name, after in graph.items():
        if not any(one in reached(graph, one) for one in {name} | reached(graph, name)):
            assert all(order.index(one) < order.index(name) for one in after)


@given(graph=GRAPHS, gone=st.sets(st.sampled_from(NAMES), min_size=1, max_size=2))
def test_a_task_is_starved_exactly_if_it_depends_on_one_that_is_gone(
    graph: dict[str, list[str]], gone: set[str]
) -> None:
    starved = Dependencies(graph).starved_by(gone)

    assert set(starved) == {n for n in graph if reached(graph, n) & gone and n not in gone}
    assert all(blocker in graph[name] for name, blocker in starved.items())
