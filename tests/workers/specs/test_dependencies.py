"""The order of tasks by their dependencies, and the tasks that can never be done."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.workers.specs.dependencies import in_order, starved_by

NAMES = tuple("abcdefgh")
GRAPHS = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True, max_size=4), min_size=1
)


def reaches(graph: dict[str, list[str]], start: str) -> set[str]:
    """Return what a task waits for, directly and indirectly, in the simplest way."""
    found: set[str] = set()
    pending = list(graph.get(start, ()))
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending += graph.get(one, ())
    return found


@given(graph=GRAPHS)
def test_an_order_has_every_task_after_those_that_it_waits_for(
    graph: dict[str, list[str]],
) -> None:
    order = in_order(graph, key=lambda name: name)

    assert sorted(order) == sorted(graph)
    for name, after in graph.items():
        if not any(one in reaches(graph, one) for one in {name} | (reaches(graph, name))):
            assert all(order.index(one) < order.index(name) for one in after if one in graph)


@given(graph=GRAPHS, gone=st.sets(st.sampled_from(NAMES), min_size=1, max_size=2))
def test_a_task_is_starved_exactly_if_it_depends_on_one_that_is_gone(
    graph: dict[str, list[str]], gone: set[str]
) -> None:
    starved = starved_by(graph, gone)

    assert set(starved) == {n for n in graph if reaches(graph, n) & gone and n not in gone}
    assert all(blocker in graph[name] for name, blocker in starved.items())
