"""Draws the diagram of a machine from its table: boxes for states, arrows between them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from interlock.kernel.machine import Machine
from interlock.kernel.outline import kind_of
from interlock.kernel.shortened import shortened
from interlock.workers.layout import Edge, Layout, Point, edge_path

# Pixels. All boxes are alike, and their names are broken into lines of this many letters.
WIDTH, HEIGHT = 140.0, 46.0
LETTERS, LINES = 16, 2
MARGIN = 8.0
PORTS = 0.8  # the part of a box's side along which arrows leave and arrive

Edges = Mapping[Edge, tuple[str, ...]]  # with the triggers of each


@dataclass(frozen=True, slots=True)
class StateBox:
    """A state: where its box is, its name in lines, and in words the triggers that stay there."""

    state: str
    kind: str
    lines: tuple[str, ...]
    x: float
    y: float
    stays: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """The path of the arrow from one state to another; `text` says which triggers lead there."""

    source: str
    target: str
    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Diagram:
    """A machine as it is drawn, from top to bottom."""

    width: float
    height: float
    nodes: tuple[StateBox, ...]
    arrows: tuple[Arrow, ...]


def diagram_of(machine: Machine) -> Diagram:
    """Return the diagram of a machine, which is worked out once for each table."""
    kinds = tuple((str(stage.state), kind_of(stage)) for stage in machine.stages)
    rows = tuple(
        (str(row.source), str(row.target), str(row.trigger)) for row in machine.transitions
    )
    return _drawn(kinds, tuple(dict.fromkeys(rows)))


@lru_cache(maxsize=100)
def _drawn(kinds: tuple[tuple[str, str], ...], rows: tuple[tuple[str, str, str], ...]) -> Diagram:
    edges: dict[Edge, tuple[str, ...]] = {}
    for source, target, trigger in rows:
        edges[source, target] = (*edges.get((source, target), ()), trigger)
    states = [state for state, _ in kinds]
    placed = _placed(states, edges)
    nodes = tuple(
        StateBox(
            state,
            kind,
            lines_of(state),
            # The layout is from left to right: it is turned here.
            placed.boxes[state].y + MARGIN,
            placed.boxes[state].x + MARGIN,
            _words(edges.get((state, state), ())),
        )
        for state, kind in kinds
    )
    arrows = tuple(
        Arrow(
            *edge,
            f"{_words(edge[:1])} → {_words(edge[1:])}, by {_words(triggers)}",
            edge_path(_margined(placed.edges[edge]), downwards=True),
        )
        for edge, triggers in edges.items()
        if edge[0] != edge[1]
    )
    return Diagram(placed.height + 2 * MARGIN, placed.width + 2 * MARGIN, nodes, arrows)


def _words(names: Iterable[str]) -> str:
    """Return names as words, here once for each table: a page has hundreds of them."""
    return ", ".join(names).replace("_", " ")


def _placed(states: list[str], edges: Edges) -> Layout:
    """Place the states. An arrow that leads back has its points from its source on, too."""
    forward = {edge: edge for edge in edges if edge[0] != edge[1]}
    for source, target in leading_back(states, edges):
        forward[source, target] = (target, source)
    after: dict[str, list[str]] = {state: [] for state in states}
    for source, target in dict.fromkeys(forward.values()):
        after[target].append(source)
    found = Layout.of(after, dict.fromkeys(states, (HEIGHT, WIDTH)))
    spread = _spread(found.edges)
    return replace(
        found,
        edges={
            edge: spread[drawn] if edge == drawn else spread[drawn][::-1]
            for edge, drawn in forward.items()
        },
    )


def leading_back(states: list[str], edges: Edges) -> Iterator[Edge]:
    """Yield the edges that lead back to a state on the way to their source: all cycles have one."""
    following = {state: [b for a, b in edges if a == state and b != state] for state in states}
    done: set[str] = set()
    way: list[str] = []

    def walk(state: str) -> Iterator[Edge]:
        way.append(state)
        for target in following[state]:
            if target in way:
                yield state, target
            elif target not in done:
                yield from walk(target)
        way.pop()
        done.add(state)

    for state in states:
        if state not in done:
            yield from walk(state)


def _spread(edges: Mapping[Edge, tuple[Point, ...]]) -> dict[Edge, tuple[Point, ...]]:
    """Return the edges with their ends side by side along the boxes, in the order of their ways."""
    found = {edge: list(points) for edge, points in edges.items()}
    for end, beside in ((0, 1), (-1, -2)):
        at_state: dict[str, dict[Point, list[Edge]]] = {}
        for edge, points in edges.items():
            # Edges that go on together from here have one place.
            at_state.setdefault(edge[end], {}).setdefault(points[beside], []).append(edge)
        for ways in at_state.values():
            for index, way in enumerate(sorted(ways, key=lambda point: point[1])):
                shift = WIDTH * PORTS * ((index + 0.5) / len(ways) - 0.5)
                for edge in ways[way]:
                    x, y = found[edge][end]
                    found[edge][end] = (x, y + shift)
    return {edge: tuple(points) for edge, points in found.items()}


def _margined(points: tuple[Point, ...]) -> tuple[Point, ...]:
    return tuple((x + MARGIN, y + MARGIN) for x, y in points)


def lines_of(state: str) -> tuple[str, ...]:
    """Return the name of a state in at most LINES lines of LETTERS letters."""
    lines = [""]
    for word in state.split("_"):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > LETTERS:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    lines = [*lines[: LINES - 1], " ".join(lines[LINES - 1 :])] if len(lines) > LINES else lines
    return tuple(shortened(line, LETTERS) for line in lines)
