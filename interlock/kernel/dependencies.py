"""What depends on what: the order, the cycles, and what can never come. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeAlias

CYCLE_SHOWN_MAX = 20
# For each name the names that it depends on. A name that is no key depends on nothing.
Graph: TypeAlias = Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The names that each name depends on, such as those of jobs or of tasks.

    A name that is no key of `after` depends on nothing.
    """

    after: Graph

    def cycles(self) -> list[tuple[str, ...]]:
        """Return one cycle for each strongly connected component, in linear time.

        A cycle begins and ends with the name of its component that comes first in `after`, and is
        the shortest one through that name. The cycles are in the order of `after`.
        """
        index = {name: n for n, name in enumerate(self.after)}
        found = [
            _shortest_cycle(self.after, min(each, key=index.__getitem__), frozenset(each))
            for each in _cyclic_components(self.after)
        ]
        return sorted(found, key=lambda cycle: index[cycle[0]])

    def refusals(self) -> dict[tuple[str, str], str]:
        """Return what is wrong, for the first dependency of each cycle: (name, dependency)."""
        return {
            (
                cycle[0],
                cycle[1],
            ): f"{_shown_cycle(cycle)} is a cycle; remove one of these dependencies"
            for cycle in self.cycles()
        }

    def in_order(self, key: Callable[[str], Any]) -> list[str]:
        """Return the names of `after`, each after those that it depends on, otherwise by their key.

        The members of cycles, which have no order, come last.
        """
        graph = self.after
        sorter = TopologicalSorter(
            {name: [other for other in after if other in graph] for name, after in graph.items()}
        )
        found: list[str] = []
        # With a cycle, everything that does not depend on the cycle is still sorted.
        with suppress(CycleError):
            sorter.prepare()
        while sorter.is_active():
            ready = sorted(sorter.get_ready(), key=key)
            if not ready:
                break
            found += ready
            sorter.done(*ready)
        return [*found, *sorted(graph.keys() - set(found), key=key)]

    def starved_by(self, gone: Iterable[str]) -> dict[str, str]:
        """Return all names that depend, directly or not, on one that is gone, each with the reason.

        The reason is the direct dependency that is gone or starved itself.
        """
        dependents: dict[str, list[str]] = {}
        for name, after in self.after.items():
            for dependency in after:
                dependents.setdefault(dependency, []).append(name)
        found: dict[str, str] = {}
        lost = deque(gone)
        known = set(lost)
        while lost:
            dependency = lost.popleft()
            for name in dependents.get(dependency, ()):
                if name not in known:
                    found[name] = dependency
                    known.add(name)
                    lost.append(name)
        return found


def _shown_cycle(cycle: tuple[str, ...]) -> str:
    """Return a cycle as one text; a long one is shown without its middle."""
    left = len(cycle) - CYCLE_SHOWN_MAX
    half = CYCLE_SHOWN_MAX // 2
    if left <= 0:
        return " -> ".join(cycle)
    return " -> ".join([*cycle[:half], f"... ({left} more) ...", *cycle[-half:]])


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
