"""Where jobs stand in a drawing: layers from left to right, their order, the ways between. Pure."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise
from statistics import median
from typing import NamedTuple, TypeAlias

from interlock.workers.specs.dependencies import cycle_in

# Lengths are in pixels.
BOX_GAP = 18.0
LANE_HEIGHT = 8.0
COLUMN_GAP_MIN = 60.0
COLUMN_GAP_MAX = 260.0
# An edge that climbs far gets more room to do so: this part of what it climbs.
COLUMN_GAP_OF_CLIMB = 0.12
# How often the order is improved, and how often the heights are.
ORDER_SWEEPS = 8
HEIGHT_SWEEPS = 12
# Bends of all edges together. Where they need more, the longest edges go straight, behind boxes.
BENDS_MAX = 30_000
# How much the two ends of a link pull at each other: a way through several columns is kept level.
PULL_OF_LANES = 8.0
PULL_OF_JOBS = 1.0

# What each job waits for, by name, each once. Every name is a key.
Graph: TypeAlias = Mapping[str, Sequence[str]]
# Who is waited for, and who waits.
Edge: TypeAlias = tuple[str, str]
Point: TypeAlias = tuple[float, float]


class Stop(NamedTuple):
    """One place in a column: a job in its own layer, in a later one the lane that leads from it."""

    name: str
    layer: int
    lane: bool


# A column's stops from top to bottom; and the stops of the next column, or the one before.
Columns: TypeAlias = list[list[Stop]]
Links: TypeAlias = Mapping[Stop, Sequence[Stop]]


@dataclass(frozen=True, slots=True)
class Box:
    """Where one job stands."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Where all of them stand, and the points of each edge.

    From its first point an edge swings to the second, from there it goes level to the third, swings
    to the fourth, and so on. It arrives from the left.
    """

    boxes: Mapping[str, Box]
    edges: Mapping[Edge, tuple[Point, ...]]
    width: float
    height: float


def layout(after: Graph, sizes: Mapping[str, tuple[float, float]]) -> Layout:
    """Return where jobs of these widths and heights stand. Raises ValueError for a ring of jobs."""
    layer = layers(after)
    ways = ways_between(after, layer)
    before, behind = _links(ways)
    columns = ordered(_columns(layer, ways), before, behind)
    tall = {
        stop: LANE_HEIGHT if stop.lane else sizes[stop.name][1]
        for column in columns
        for stop in column
    }
    middle = _middles(columns, before, behind, tall)
    widths = [max(sizes[stop.name][0] for stop in column if not stop.lane) for column in columns]
    left = _lefts(widths, columns, before, middle)
    boxes = {
        stop.name: Box(
            left[stop.layer], middle[stop] - tall[stop] / 2, widths[stop.layer], tall[stop]
        )
        for column in columns
        for stop in column
        if not stop.lane
    }
    edges = {edge: _points(stops, left, widths, middle) for edge, stops in ways.items()}
    lowest = max((middle[one] + tall[one] / 2 for column in columns for one in column), default=0)
    return Layout(boxes, edges, left[-1] + widths[-1] if left else 0, lowest)


def layers(after: Graph) -> dict[str, int]:
    """Return how many jobs the longest way to each passes. Raises ValueError for a ring."""
    ring = cycle_in(after)
    if ring:
        raise ValueError(f"the job {ring[0]!r} waits for itself")
    found: dict[str, int] = {}
    for name in TopologicalSorter(after).static_order():
        found[name] = max((found[one] + 1 for one in after[name]), default=0)
    return {name: found[name] for name in after}


def ways_between(after: Graph, layer: Mapping[str, int]) -> dict[Edge, tuple[Stop, ...]]:
    """Return the stops of each edge, one in each column on its way while there are bends left.

    The edges of one job share their stops: they part where they have to.
    """
    edges = [(one, name) for name, names in after.items() for one in names]
    found: dict[Edge, tuple[Stop, ...]] = {}
    left = BENDS_MAX
    for edge in sorted(edges, key=lambda edge: layer[edge[1]] - layer[edge[0]]):
        source, target = edge
        between = range(layer[source] + 1, layer[target])
        left -= len(between)
        start, end = (Stop(name, layer[name], lane=False) for name in edge)
        bends = [Stop(source, index, lane=True) for index in between] if left >= 0 else []
        found[edge] = (start, *bends, end)
    return {edge: found[edge] for edge in edges}


def ordered(columns: Columns, before: Links, behind: Links) -> Columns:
    """Return the columns with each stop near those that it is linked to, so that few edges cross.

    The best of a bounded number of sweeps, so never worse than what was given.
    """
    best, fewest = columns, crossings(columns, behind)
    for turn in range(ORDER_SWEEPS):
        if not fewest:
            break
        columns = _swept(columns, behind, -1) if turn % 2 else _swept(columns, before, 1)
        number = crossings(columns, behind)
        if number < fewest:
            best, fewest = columns, number
    return best


def crossings(columns: Columns, behind: Links) -> int:
    """Return how many links between neighbouring columns cross each other."""
    number = 0
    for column, following in pairwise(columns):
        place = {stop: index for index, stop in enumerate(following)}
        seen: list[int] = []
        for stop in column:
            ends = sorted(place[one] for one in behind.get(stop, ()))
            number += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return number


def _swept(columns: Columns, linked: Links, step: int) -> Columns:
    # Each column after the one that it looks at, its stops by the mean place of those linked to.
    place: dict[Stop, float] = {}
    found: Columns = []
    for column in columns[::step]:
        wanted = {
            stop: _mean([(place[one], 1.0) for one in linked.get(stop, ())], float(index))
            for index, stop in enumerate(column)
        }
        found.append(sorted(column, key=wanted.__getitem__))
        place = {stop: float(index) for index, stop in enumerate(found[-1])}
    return found[::step]


def _links(ways: Mapping[Edge, tuple[Stop, ...]]) -> tuple[Links, Links]:
    # Only between neighbouring columns: what goes straight through several orders nothing.
    pairs = dict.fromkeys(pair for stops in ways.values() for pair in pairwise(stops))
    before: dict[Stop, list[Stop]] = {}
    behind: dict[Stop, list[Stop]] = {}
    for one, other in pairs:
        if other.layer - one.layer == 1:
            before.setdefault(other, []).append(one)
            behind.setdefault(one, []).append(other)
    return before, behind


def _columns(layer: Mapping[str, int], ways: Mapping[Edge, tuple[Stop, ...]]) -> Columns:
    stops = [Stop(name, index, lane=False) for name, index in layer.items()]
    stops += [stop for way in ways.values() for stop in way]
    columns: Columns = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for stop in dict.fromkeys(stops):
        columns[stop.layer].append(stop)
    return columns


def _middles(
    columns: Columns, before: Links, behind: Links, tall: Mapping[Stop, float]
) -> dict[Stop, float]:
    """Return the height of each stop's middle: level with those linked to, as far as there is room.

    The last sweeps look both ways, so that a job stands between those before and those behind it.
    """
    middle: dict[Stop, float] = {}
    for column in columns:
        middle |= _stacked(column, [(0.0, 1.0)] * len(column), tall)
    for turn in range(HEIGHT_SWEEPS):
        sides = (before,) if turn == 0 else (behind,) if turn == 1 else (before, behind)
        for column in columns[:: -1 if turn % 2 else 1]:
            wanted = []
            for stop in column:
                others = [one for side in sides for one in side.get(stop, ())]
                pulls = [(middle[one], _pull(stop, one)) for one in others]
                pull = sum(pull for _, pull in pulls) or PULL_OF_JOBS
                wanted.append((_mean(pulls, middle[stop]), pull))
            middle |= _stacked(column, wanted, tall)
    middle = _straightened(columns, middle, tall)
    top = min((middle[one] - tall[one] / 2 for column in columns for one in column), default=0)
    return {stop: float(round(found - top)) for stop, found in middle.items()}


def _straightened(
    columns: Columns, middle: Mapping[Stop, float], tall: Mapping[Stop, float]
) -> dict[Stop, float]:
    """Return the middles with each lane at one height, as far as there is room."""
    heights: dict[str, list[float]] = {}
    for stop in (one for column in columns for one in column if one.lane):
        heights.setdefault(stop.name, []).append(middle[stop])
    level = {name: median(of) for name, of in heights.items()}
    found: dict[Stop, float] = {}
    for column in columns:
        wanted = [
            (level[stop.name], PULL_OF_LANES) if stop.lane else (middle[stop], PULL_OF_JOBS)
            for stop in column
        ]
        found |= _stacked(column, wanted, tall)
    return found


def _pull(one: Stop, other: Stop) -> float:
    return PULL_OF_LANES if one.lane and other.lane else PULL_OF_JOBS


def _mean(weighted: Sequence[tuple[float, float]], otherwise: float) -> float:
    total = sum(weight for _, weight in weighted)
    return sum(value * weight for value, weight in weighted) / total if total else otherwise


def _stacked(
    column: Sequence[Stop], wanted: Sequence[tuple[float, float]], tall: Mapping[Stop, float]
) -> dict[Stop, float]:
    """Return middles as near to the wanted ones as their order and the gaps allow.

    Neighbours that want to pass each other become one block, which stands at the mean of what its
    members want, weighted by their pull: least squares by pooling those that violate the order.
    """
    offsets = [0.0]
    for one, other in pairwise(column):
        offsets.append(offsets[-1] + (tall[one] + tall[other]) / 2 + BOX_GAP)
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
        stop: start + offset for stop, start, offset in zip(column, starts, offsets, strict=True)
    }


def _lefts(
    widths: Sequence[float], columns: Columns, before: Links, middle: Mapping[Stop, float]
) -> list[float]:
    lefts: list[float] = []
    right = 0.0
    for width, column in zip(widths, columns, strict=True):
        climbs = (
            abs(middle[one] - middle[stop]) for stop in column for one in before.get(stop, ())
        )
        gap = COLUMN_GAP_MIN + COLUMN_GAP_OF_CLIMB * max(climbs, default=0)
        lefts.append(round(right + min(gap, COLUMN_GAP_MAX), 1) if lefts else 0.0)
        right = lefts[-1] + width
    return lefts


def _points(
    stops: Sequence[Stop],
    left: Sequence[float],
    widths: Sequence[float],
    middle: Mapping[Stop, float],
) -> tuple[Point, ...]:
    found: list[Point] = []
    for stop in stops:
        start, height = left[stop.layer], middle[stop]
        found += [(start, height), (start + widths[stop.layer], height)]
    return tuple(found[1:-1])
