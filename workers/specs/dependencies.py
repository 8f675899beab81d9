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
