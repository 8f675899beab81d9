"""The order of tasks that wait for each other: cycles, who comes first, who is starved. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeAlias

# What each task waits for, by name.
Graph: TypeAlias = Mapping[str, Collection[str]]


def cycle_in(graph: Graph) -> tuple[str, ...]:
    """Return tasks that wait for each other in a ring, its first again at its end, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as ring:
        # Each is waited for by the next one there: turned round it reads "waits for".
        found = list(reversed(ring.args[1]))[1:]
        start = found.index(min(found))
        return (*found[start:], *found[:start], found[start])
    return ()


def in_order(graph: Graph, key: Callable[[str], Any]) -> list[str]:
    """Return every task of a graph after those that it waits for, equals by their key.

    Those in a ring come last: whoever asks wants to see them as well.
    """
    inside = {name: [one for one in after if one in graph] for name, after in graph.items()}
    sorter = TopologicalSorter(inside)
    found: list[str] = []
    # Where there is a ring it goes on, up to it.
    with suppress(CycleError):
        sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=key)
        if not ready:
            break
        found += ready
        sorter.done(*ready)
    return [*found, *sorted(graph.keys() - set(found), key=key)]


def starved_by(graph: Graph, gone: Iterable[str]) -> dict[str, str]:
    """Return who waits in vain where some are gone, at whatever distance, and for whom."""
    found: dict[str, str] = {}
    lost = deque(gone)
    known = set(lost)
    while lost:
        one = lost.popleft()
        for name, after in graph.items():
            if name not in known and one in after:
                found[name] = one
                known.add(name)
                lost.append(name)
    return found


def rings_in(graph: Graph) -> list[tuple[str, ...]]:
    """Return a ring for each set of jobs that all wait for each other, in the graph's order.

    Each begins with the first of its set and ends with it, and is the shortest that leads there.
    A job that waits for itself alone is a ring of one.
    """
    place = {name: n for n, name in enumerate(graph)}
    found = [
        _shortest(graph, min(tangle, key=place.__getitem__), frozenset(tangle))
        for tangle in _tangles(graph)
    ]
    return sorted(found, key=lambda ring: place[ring[0]])


def _tangles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components that have a ring. Tarjan's way, without recursion.

    A job is numbered when it is first seen, `low` is the least number that it reaches, and a
    component is complete when nothing of it reaches further up the path than its first.
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
            for one in after:
                if one not in number:
                    waiting.append((one, iter(graph[one])))
                    break
                if one in on_path:
                    low[name] = min(low[name], number[one])
            else:
                waiting.pop()
                if waiting:
                    above = waiting[-1][0]
                    low[above] = min(low[above], low[name])
                if low[name] == number[name]:
                    component = _cut_off(path, name)
                    on_path.difference_update(component)
                    if len(component) > 1 or name in graph[name]:
                        found.append(component)
    return found


def _cut_off(path: list[str], name: str) -> list[str]:
    """Take the end of a path off, from a name on."""
    taken = [path.pop()]
    while taken[-1] != name:
        taken.append(path.pop())
    return taken


def _shortest(graph: Graph, start: str, inside: frozenset[str]) -> tuple[str, ...]:
    """Return the shortest ring through a job of a component."""
    came: dict[str, str] = {}
    look = deque([start])
    while start not in came:
        name = look.popleft()
        for one in graph[name]:
            if one in inside and one not in came:
                came[one] = name
                look.append(one)
    ring = [start, came[start]]
    while ring[-1] != start:
        ring.append(came[ring[-1]])
    return tuple(reversed(ring))
