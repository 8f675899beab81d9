"""Which walk comes next: each leads to something that was not tried yet, and on to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from interlock.testing.walk import Chooser, Offer
from interlock.testing.walk_kit import RUN

# How often a random walk chooses among faults too, and lets a message or an effect meet one.
FAULTS, FAULTS_ASIDE = 0.3, 0.1
# A machine, a state of it (or a message or an effect), and how often its function has run before.
Node = tuple[str, str, int]
VISITS_MAX = 4  # so many runs are told apart


class Goal(NamedTuple):
    """What was not tried yet, and where."""

    node: Node
    option: str


class Search(Chooser):
    """Leads walks to all that can be chosen anywhere: `begin` each, as long as there is a goal.

    A walk repeats the shortest way that is known to a place, does there what was not tried yet, and
    then goes on with what is new, or to an end by the shortest way that is known. Where functions
    are called (`is_real`), what comes of a state depends on what came before: a state is another
    place once its function has run. Faults are tried at the first one.
    """

    def __init__(self, *, is_real: bool) -> None:
        self._visits_max = VISITS_MAX if is_real else 1
        self._ways: dict[Goal, list[str]] = {}  # the fewest choices to where it may be chosen
        self._goals: dict[Goal, None] = {}
        self._tried: Counter[Goal] = Counter()
        self._to_end: dict[Node, tuple[int, str]] = {}  # the fewest choices to an end, and how
        self._goal: Goal | None = None
        self._way: list[str] = []
        self._trace: Sequence[str] = ()
        self._passed: list[tuple[int, Goal]] = []

    @property
    def ways(self) -> dict[tuple[str, str], list[str]]:
        """How walks came to each state."""
        return {goal.node[:2]: way for goal, way in reversed(self._ways.items())}

    @property
    def is_left(self) -> bool:
        """Whether anything was not tried yet."""
        return bool(self._goals) or not self._ways

    def begin(self, trace: Sequence[str]) -> None:
        """Begin a walk to what was not tried yet."""
        self._trace, self._passed = trace, []
        self._goal = next(iter(self._goals), None)
        self._way = self._ways[self._goal] if self._goal else []

    def end(self) -> None:
        """Learn from the walk that ends how an end is reached."""
        for place, goal in self._passed:
            left = len(self._trace) - place
            if "!" not in goal.option and left < self._to_end.get(goal.node, (left + 1, ""))[0]:
                self._to_end[goal.node] = (left, goal.option)
        if self._goal:
            self._goals.pop(self._goal, None)  # it was not there this time

    def choose(self, offers: Sequence[Offer]) -> Offer:
        """Return the offer that leads to the goal of this walk, or beyond it."""
        self._learn(offers)
        wanted = self._wanted(offers)
        chosen = wanted or min(filter(_is_plain, offers), key=self._rank)
        return self._take(chosen)

    def aside(self, offers: Sequence[Offer]) -> Offer | None:
        """Return a fault if it is what this walk is about."""
        self._learn(offers)
        wanted = self._wanted(offers)
        return self._take(wanted) if wanted else None

    def _learn(self, offers: Sequence[Offer]) -> None:
        for offer in offers:
            goal = self._goal_of(offer)
            if goal not in self._ways or _length(self._trace) < _length(self._ways[goal]):
                self._ways[goal] = [*self._trace]
                is_later = goal.node[2] > 0 and "!" in goal.option
                if not self._tried[goal] and not is_later:
                    self._goals.setdefault(goal)

    def _wanted(self, offers: Sequence[Offer]) -> Offer | None:
        place = len(self._trace)
        if place < len(self._way):
            return next((one for one in offers if str(one) == self._way[place]), None)
        return next((one for one in offers if self._goal_of(one) == self._goal), None)

    def _take(self, offer: Offer) -> Offer:
        goal = self._goal_of(offer)
        self._tried[goal] += 1
        if goal == self._goal:
            self._goal = None
        if _length(self._trace) <= _length(self._ways[goal]):  # else it comes again by that way
            self._goals.pop(goal, None)
        self._passed.append((len(self._trace), goal))
        return offer

    def _rank(self, offer: Offer) -> tuple[int, int, int]:
        """Return what is less for a better offer: a new one, one on the way to an end."""
        goal = self._goal_of(offer)
        if offer.option == RUN:
            return 0, 0, 0
        tried, (left, option) = self._tried[goal], self._to_end.get(goal.node, (0, ""))
        return min(tried, 1), left if option == offer.option else 10_000, tried

    def _goal_of(self, offer: Offer) -> Goal:
        flow, state, _ = offer.point
        runs = sum(goal.node[:2] == (flow, state) for _, goal in self._passed if _is_run(goal))
        return Goal((flow, state, min(runs, self._visits_max - 1)), offer.option)


class Wander(Chooser):
    """Chooses at random: walks on which several faults meet."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - no secret

    def choose(self, offers: Sequence[Offer]) -> Offer:
        """Return an offer, mostly one without a fault."""
        is_bad = self._random.random() < FAULTS
        return self._random.choice([one for one in offers if is_bad or _is_plain(one)])

    def aside(self, offers: Sequence[Offer]) -> Offer | None:
        """Return now and then a fault."""
        return self._random.choice(offers) if self._random.random() < FAULTS_ASIDE else None


class Replay(Chooser):
    """Repeats a walk. `misfit` says where it does not fit the workflow as it is now.

    An error would be one of the step that is at work. With `is_tried` the last choice may not be
    there: it is what is never followed.
    """

    def __init__(self, ways: Sequence[str], *, is_tried: bool) -> None:
        self._left, self._is_tried = [*ways], is_tried
        self.misfit = ""

    @property
    def is_over(self) -> bool:
        """Whether all choices of the walk were made."""
        return not self._left

    def choose(self, offers: Sequence[Offer]) -> Offer:
        """Return the offer that was chosen then, after the last one that which comes first."""
        if not self._left:
            return offers[0]
        wanted = self._left.pop(0)
        found = next((one for one in offers if str(one) == wanted), None)
        if found is None and not (self._is_tried and not self._left):
            there = ", ".join(map(str, offers))
            self.misfit = f"the walk does not fit: there is no {wanted} now; there is {there}"
            self._left = []
        return found or offers[0]

    def aside(self, offers: Sequence[Offer]) -> Offer | None:
        """Return the fault that came then, if one did."""
        found = next((one for one in offers if self._left and str(one) == self._left[0]), None)
        if found:
            self._left.pop(0)
        return found


def _is_run(goal: Goal) -> bool:
    """Whether a function is called, and what it returns is taken."""
    return goal.option == RUN


def _is_plain(offer: Offer) -> bool:
    """Whether it is no fault."""
    return "!" not in offer.option


def _length(trace: Sequence[str]) -> int:
    """Return the number of choices; a fault counts twice, so that a way without it is taken."""
    return len(trace) + "".join(trace).count("!")
