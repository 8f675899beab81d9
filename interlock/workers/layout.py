"""Places the boxes of a drawing in columns from left to right, and routes the edges. Pure."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise
from statistics import median
from typing import NamedTuple, TypeAlias

from interlock.kernel.dependencies import Dependencies

# Lengths are in pixels.
BOX_GAP = 18.0
LANE_HEIGHT = 8.0
COLUMN_GAP_MIN = 60.0
COLUMN_GAP_MAX = 260.0
# The gap before a column grows by this part of the greatest height that an edge climbs in it.
COLUMN_GAP_OF_CLIMB = 0.12
# The number of passes that improve the order in the columns, and the heights.
ORDER_SWEEPS = 8
HEIGHT_SWEEPS = 12
# The limit of bends of all edges together. Beyond it the longest edges are drawn straight, and may
# run behind boxes.
BENDS_MAX = 30_000
# The force with which the two ends of a link attract each other. It is high for the lanes of an
# edge that passes several columns, so that these stay level.
PULL_OF_LANES = 8.0
PULL_OF_BOXES = 1.0

# The boxes that each box depends on, by name and without repetition. Every name is a key.
Graph: TypeAlias = Mapping[str, Sequence[str]]
# A box, and another one that depends on it.
Edge: TypeAlias = tuple[str, str]
Point: TypeAlias = tuple[float, float]


class Waypoint(NamedTuple):
    """A position in a column: a box in its own layer, or in a later layer a lane of its edges."""

    name: str
    layer: int
    lane: bool


# The waypoints of each column from top to bottom, and the linked ones in a neighbouring column.
Columns: TypeAlias = list[list[Waypoint]]
Links: TypeAlias = Mapping[Waypoint, Sequence[Waypoint]]


@dataclass(frozen=True, slots=True)
class Box:
    """The position and size of one box."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of all boxes, and the points of each edge.

    Boxes are in columns: each is to the right of those that it depends on. An edge curves from its
    first point to the second, goes level to the third, curves to the fourth, and so on. It arrives
    from the left. Lengths are in pixels.
    """

    boxes: Mapping[str, Box]
    edges: Mapping[Edge, tuple[Point, ...]]
    width: float
    height: float

    @classmethod
    def of(cls, after: Graph, sizes: Mapping[str, tuple[float, float]]) -> Layout:
        """Place boxes of these widths and heights. Raises ValueError for a cycle of boxes."""
        layer = layers(after)
        routes = routes_of_edges(after, layer)
        before, behind = _links(routes)
        columns = ordered(_columns(layer, routes), before, behind)
        tall = {
            waypoint: LANE_HEIGHT if waypoint.lane else sizes[waypoint.name][1]
            for column in columns
            for waypoint in column
        }
        middle = _middles(columns, before, behind, tall)
        widths = [
            max(sizes[waypoint.name][0] for waypoint in column if not waypoint.lane)
            for column in columns
        ]
        left = _left_edges(widths, columns, before, middle)
        boxes = {
            waypoint.name: Box(
                left[waypoint.layer],
                middle[waypoint] - tall[waypoint] / 2,
                widths[waypoint.layer],
                tall[waypoint],
            )
            for column in columns
            for waypoint in column
            if not waypoint.lane
        }
        edges = {
            edge: _points(waypoints, left, widths, middle) for edge, waypoints in routes.items()
        }
        lowest = max(
            (middle[point] + tall[point] / 2 for column in columns for point in column), default=0
        )
        return cls(boxes, edges, left[-1] + widths[-1] if left else 0, lowest)

    def path(self, edge: Edge) -> str:
        """Return an edge as the data of an SVG path, with the head of an arrow at its end."""
        return edge_path(self.edges[edge])


def edge_path(points: Sequence[Point], *, downwards: bool = False) -> str:
    """Return an edge as the data of an SVG path, with the head of an arrow at its last point.

    An edge from right to left is given with its points in reverse. With `downwards`, the drawing is
    turned: what came from left to right goes from top to bottom.
    """

    def at(x: float, y: float) -> str:
        return f"{px(y)} {px(x)}" if downwards else f"{px(x)} {px(y)}"

    drawn = [f"M{at(*points[0])}"]
    for index, ((x, y), (to_x, to_y)) in enumerate(pairwise(points)):
        if index % 2 or y == to_y:
            drawn.append(f"L{at(to_x, to_y)}")
            continue
        bend = (x + to_x) / 2
        drawn.append(f"C{at(bend, y)} {at(bend, to_y)} {at(to_x, to_y)}")
    back = 7 if points[0][0] > points[-1][0] else -7
    drawn.append(f"m{at(back, -4)}l{at(-back, 4)}l{at(back, 4)}")
    return "".join(drawn)


def px(number: float) -> str:
    """Return a length as SVG has it."""
    return f"{number:.1f}".removesuffix(".0")


def layers(after: Graph) -> dict[str, int]:
    """Return the layer of each box: the length of the longest path to it.

    Raises ValueError for a cycle.
    """
    if cycles := Dependencies(after).cycles():
        raise ValueError(f"{cycles[0][0]!r} waits for itself")
    found: dict[str, int] = {}
    for name in TopologicalSorter(after).static_order():
        found[name] = max((found[other] + 1 for other in after[name]), default=0)
    return {name: found[name] for name in after}


def routes_of_edges(after: Graph, layer: Mapping[str, int]) -> dict[Edge, tuple[Waypoint, ...]]:
    """Return the waypoints of each edge: one in each column between its ends, up to BENDS_MAX.

    The edges that leave one box share their waypoints, and part where they have to.
    """
    edges = [(other, name) for name, names in after.items() for other in names]
    found: dict[Edge, tuple[Waypoint, ...]] = {}
    left = BENDS_MAX
    for edge in sorted(edges, key=lambda edge: layer[edge[1]] - layer[edge[0]]):
        source, target = edge
        between = range(layer[source] + 1, layer[target])
        left -= len(between)
        start, end = (Waypoint(name, layer[name], lane=False) for name in edge)
        bends = [Waypoint(source, index, lane=True) for index in between] if left >= 0 else []
        found[edge] = (start, *bends, end)
    return {edge: found[edge] for edge in edges}


def ordered(columns: Columns, before: Links, behind: Links) -> Columns:
    """Return the columns in an order with few crossings, each waypoint near the linked ones.

    It is the best order of a fixed number of passes, so it never has more crossings than before.
    """
    best, fewest = columns, crossings(columns, behind)
    for turn in range(ORDER_SWEEPS):
        if not fewest:
            break
        columns = (
            _sweep_columns(columns, behind, -1) if turn % 2 else _sweep_columns(columns, before, 1)
        )
        number = crossings(columns, behind)
        if number < fewest:
            best, fewest = columns, number
    return best


def crossings(columns: Columns, behind: Links) -> int:
    """Return how many links between neighbouring columns cross each other."""
    number = 0
    for column, following in pairwise(columns):
        row = {waypoint: index for index, waypoint in enumerate(following)}
        seen: list[int] = []
        for waypoint in column:
            ends = sorted(row[other] for other in behind.get(waypoint, ()))
            number += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return number


def _sweep_columns(columns: Columns, linked: Links, step: int) -> Columns:
    # Sort each column by the mean row of the linked waypoints in the column before it.
    row: dict[Waypoint, float] = {}
    found: Columns = []
    for column in columns[::step]:
        wanted = {
            waypoint: _mean([(row[other], 1.0) for other in linked.get(waypoint, ())], float(index))
            for index, waypoint in enumerate(column)
        }
        found.append(sorted(column, key=wanted.__getitem__))
        row = {waypoint: float(index) for index, waypoint in enumerate(found[-1])}
    return found[::step]


def _links(routes: Mapping[Edge, tuple[Waypoint, ...]]) -> tuple[Links, Links]:
    # Only between neighbouring columns: an edge straight through several does not affect the order.
    pairs = dict.fromkeys(pair for waypoints in routes.values() for pair in pairwise(waypoints))
    before: dict[Waypoint, list[Waypoint]] = {}
    behind: dict[Waypoint, list[Waypoint]] = {}
    for first, second in pairs:
        if second.layer - first.layer == 1:
            before.setdefault(second, []).append(first)
            behind.setdefault(first, []).append(second)
    return before, behind


def _columns(layer: Mapping[str, int], routes: Mapping[Edge, tuple[Waypoint, ...]]) -> Columns:
    waypoints = [Waypoint(name, index, lane=False) for name, index in layer.items()]
    waypoints += [waypoint for route in routes.values() for waypoint in route]
    columns: Columns = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for waypoint in dict.fromkeys(waypoints):
        columns[waypoint.layer].append(waypoint)
    return columns


def _middles(
    columns: Columns, before: Links, behind: Links, tall: Mapping[Waypoint, float]
) -> dict[Waypoint, float]:
    """Return the height of each waypoint's middle, level with the linked ones if there is room.

    The last passes use the links on both sides, so that a box is level with the middle of them.
    """
    middle: dict[Waypoint, float] = {}
    for column in columns:
        middle |= _stacked(column, [(0.0, 1.0)] * len(column), tall)
    for turn in range(HEIGHT_SWEEPS):
        sides = (before,) if turn == 0 else (behind,) if turn == 1 else (before, behind)
        for column in columns[:: -1 if turn % 2 else 1]:
            wanted = []
            for waypoint in column:
                others = [other for side in sides for other in side.get(waypoint, ())]
                pulls = [(middle[other], _pull(waypoint, other)) for other in others]
                pull = sum(pull for _, pull in pulls) or PULL_OF_BOXES
                wanted.append((_mean(pulls, middle[waypoint]), pull))
            middle |= _stacked(column, wanted, tall)
    middle = _straightened(columns, middle, tall)
    top = min(
        (middle[point] - tall[point] / 2 for column in columns for point in column), default=0
    )
    return {waypoint: float(round(found - top)) for waypoint, found in middle.items()}


def _straightened(
    columns: Columns, middle: Mapping[Waypoint, float], tall: Mapping[Waypoint, float]
) -> dict[Waypoint, float]:
    """Return the middles with all waypoints of a lane at one height if there is room."""
    heights: dict[str, list[float]] = {}
    for waypoint in (point for column in columns for point in column if point.lane):
        heights.setdefault(waypoint.name, []).append(middle[waypoint])
    level = {name: median(values) for name, values in heights.items()}
    found: dict[Waypoint, float] = {}
    for column in columns:
        wanted = [
            (level[waypoint.name], PULL_OF_LANES)
            if waypoint.lane
            else (middle[waypoint], PULL_OF_BOXES)
            for waypoint in column
        ]
        found |= _stacked(column, wanted, tall)
    return found


def _pull(first: Waypoint, second: Waypoint) -> float:
    return PULL_OF_LANES if first.lane and second.lane else PULL_OF_BOXES


def _mean(weighted: Sequence[tuple[float, float]], otherwise: float) -> float:
    total = sum(weight for _, weight in weighted)
    return sum(value * weight for value, weight in weighted) / total if total else otherwise


def _stacked(
    column: Sequence[Waypoint],
    wanted: Sequence[tuple[float, float]],
    tall: Mapping[Waypoint, float],
) -> dict[Waypoint, float]:
    """Return middles as near to the wanted ones as the order and the gaps allow.

    This is least squares with the pool-adjacent-violators algorithm: neighbours whose wanted
    middles violate the order become one block, at the weighted mean of what its members want.
    """
    offsets = [0.0]
    for upper, lower in pairwise(column):
        offsets.append(offsets[-1] + (tall[upper] + tall[lower]) / 2 + BOX_GAP)
    blocks: list[tuple[float, float, int]] = []
    for (value, weight), offset in zip(wanted, offsets, strict=True):
        block = (value - offset, weight, 1)
        while blocks and blocks[-1][0] >= block[0]:
            last = blocks.pop()
            total = last[1] + block[1]
            block = ((last[0] * last[1] + block[0] * block[1]) / total, total, last[2] + block[2])
        blocks.append(block)
    starts = [start for start, _, number in blocks for _ in range(number)]
    return {
        waypoint: start + offset
        for waypoint, start, offset in zip(column, starts, offsets, strict=True)
    }


def _left_edges(
    widths: Sequence[float], columns: Columns, before: Links, middle: Mapping[Waypoint, float]
) -> list[float]:
    lefts: list[float] = []
    right = 0.0
    for width, column in zip(widths, columns, strict=True):
        climbs = (
            abs(middle[other] - middle[waypoint])
            for waypoint in column
            for other in before.get(waypoint, ())
        )
        gap = COLUMN_GAP_MIN + COLUMN_GAP_OF_CLIMB * max(climbs, default=0)
        lefts.append(round(right + min(gap, COLUMN_GAP_MAX), 1) if lefts else 0.0)
        right = lefts[-1] + width
    return lefts


def _points(
    waypoints: Sequence[Waypoint],
    left: Sequence[float],
    widths: Sequence[float],
    middle: Mapping[Waypoint, float],
) -> tuple[Point, ...]:
    found: list[Point] = []
    for waypoint in waypoints:
        start, height = left[waypoint.layer], middle[waypoint]
        found += [(start, height), (start + widths[waypoint.layer], height)]
    return tuple(found[1:-1])
