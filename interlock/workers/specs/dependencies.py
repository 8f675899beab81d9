"""Reads, orders and checks the dependencies of jobs and tasks on each other. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any

from interlock.kernel.cycles import Graph, cycles_in
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.node import Node
from interlock.workers.specs.problems import Location

CYCLE_SHOWN_MAX = 20


def read_dependencies(
    node: Node, location: Location, read_entry: Callable[[Node], str]
) -> dict[str, Node]:
    """Return the names that a list has, each with its entry; a repeated name is refused.

    `read_entry` returns '' for an entry that it has refused.
    """
    found: dict[str, Node] = {}
    for entry in location.entries(node):
        name = read_entry(entry)
        if name in found:
            problem = f"{shown(entry.value)} is there twice, first in line {found[name].line}"
            location.refuse(entry, f"{problem}; remove one")
        elif name:
            found[name] = entry
    return found


def refuse_cycles(
    graph: Mapping[str, Mapping[str, Node]], locations: Mapping[str, Location]
) -> None:
    """Refuse each cycle at the place of its first dependency.

    `graph` has for each name its dependencies as they are written. `locations` has the names that
    the file defines; they come first in the graph. A cycle without any of them is not refused.
    """
    for cycle in cycles_in(graph):
        if cycle[0] in locations:
            problem = f"{_shown_cycle(cycle)} is a cycle; remove one of these dependencies"
            locations[cycle[0]].refuse(graph[cycle[0]][cycle[1]], problem)


def in_order(graph: Graph, key: Callable[[str], Any]) -> list[str]:
    """Return all names of a graph, each after those that it depends on, otherwise by their key.

    The members of cycles, which have no order, come last.
    """
    inside = {name: [other for other in after if other in graph] for name, after in graph.items()}
    sorter = TopologicalSorter(inside)
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


def starved_by(graph: Graph, gone: Iterable[str]) -> dict[str, str]:
    """Return all names that depend, directly or not, on one that is gone, each with the reason.

    The reason is the direct dependency that is gone or starved itself.
    """
    dependents: dict[str, list[str]] = {}
    for name, after in graph.items():
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
