"""Finds the cycles of a graph in linear time. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import TypeAlias

# For each name the names that it depends on. A name that is no key depends on nothing.
Graph: TypeAlias = Mapping[str, Collection[str]]


def cycles_in(graph: Graph) -> list[tuple[str, ...]]:
    """Return one cycle for each strongly connected component.

    A cycle begins and ends with the name of its component that comes first in the graph, and is the
    shortest one through that name. The cycles are in the order of the graph.
    """
    index = {name: n for n, name in enumerate(graph)}
    found = [
        _shortest_cycle(graph, min(component, key=index.__getitem__), frozenset(component))
        for component in _cyclic_components(graph)
    ]
    return sorted(found, key=lambda cycle: index[cycle[0]])


def _cyclic_components(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components that have a cycle.

    This is Tarjan's algorithm without recursion: `number` counts the names as they are first seen,
    `low` is the lowest number that a name reaches, and a component is complete when `low` of its
    first name is its own number.
    """
    found: list[list[str]] = []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for root in graph:
        waiting = [] if root in number else [(root, iter(graph[root]))]
        while waiting:
            name, after = waiting[-1]
            if name not in number:
                number[name] = low[name] = len(number)
                path.append(name)
                on_path.add(name)
            for other in after:
                if other not in number:
                    waiting.append((other, iter(graph.get(other, ()))))
                    break
                if other in on_path:
                    low[name] = min(low[name], number[other])
            else:
                waiting.pop()
                if waiting:
                    previous = waiting[-1][0]
                    low[previous] = min(low[previous], low[name])
                if low[name] == number[name]:
                    component = _pop_component(path, name)
                    on_path.difference_update(component)
                    if len(component) > 1 or name in graph.get(name, ()):
                        found.append(component)
    return found


def _pop_component(path: list[str], name: str) -> list[str]:
    """Remove the end of a path, from a name on, and return it."""
    taken = [path.pop()]
    while taken[-1] != name:
        taken.append(path.pop())
    return taken


def _shortest_cycle(graph: Graph, start: str, inside: frozenset[str]) -> tuple[str, ...]:
    """Return the shortest cycle through a name of a component, by breadth-first search."""
    previous: dict[str, str] = {}
    queue = deque([start])
    while start not in previous:
        name = queue.popleft()
        for other in graph[name]:
            if other in inside and other not in previous:
                previous[other] = name
                queue.append(other)
    cycle = [start, previous[start]]
    while cycle[-1] != start:
        cycle.append(previous[cycle[-1]])
    return tuple(reversed(cycle))
