"""A state machine of Hypothesis for a workflow: it finds the walk, and the shortest, that fails."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from interlock.testing.findings import FoundError, Report
from interlock.testing.said import KitError
from interlock.testing.stand_ins import first_data
from interlock.testing.steps import with_children
from interlock.testing.store import KitStore
from interlock.testing.walk import Chooser, Offer, Walk
from interlock.testing.walk_kit import Scene, scene_of
from interlock.workflow.data import Data
from interlock.workflow.workflow import Workflow

try:
    from hypothesis import Phase
    from hypothesis import settings as hypothesis_settings
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
except ImportError as missing:
    why = "state_machine() needs Hypothesis: pip install 'interlock[testing]'"
    raise ImportError(why) from missing

D = TypeVar("D", bound=Data)

STEPS_MAX = 20
# What is chosen while a rule runs, as numbers: 0 is the first, without a fault.
WAYS = st.lists(st.integers(0, 99), max_size=8)
ASIDES = st.lists(st.sampled_from((0, 0, 0, 1, 2, 3)), max_size=8)


def state_machine(
    flow: Workflow[D],
    *others: Workflow[Any],
    data: st.SearchStrategy[D] | None = None,
    real: bool = False,
    fakes: Mapping[str, Callable[..., Any]] | None = None,
    once: Collection[str] = (),
    store: KitStore | None = None,
    settings: Mapping[str, str] | None = None,
) -> type[RuleBasedStateMachine]:
    """Return a state machine of Hypothesis for a workflow.

    `TestRefund = state_machine(refund).TestCase` is a test. In each step of it something comes from
    outside: an answer, a call, time, a cancel, with any outcome and fault of the steps that follow.
    It fails with what `explore` finds, whose other arguments it takes. Records begin with `data`,
    by default with a value of their types.
    """
    flows = with_children((flow, *others))
    begun: Any = data
    if data is None:
        made = first_data(flow)
        if made is None:
            raise KitError(f"no value fits the data of {flow.name}: give data=, a strategy")
        begun = st.just(made)

    def scene(found: KitStore) -> Scene:
        return scene_of(flows, found, settings, fakes, once, real=real)

    class OfWorkflow(WalkMachine):
        scenery = Scenery(scene, store)

        @initialize(first=begun, ways=WAYS, asides=ASIDES)
        def begin(self, first: Data, ways: list[int], asides: list[int]) -> None:
            self.go(ways, asides, lambda: self.walk.begin(first.model_copy(deep=True)))

    # What it explains of a failure are lines of the engine, and it traces the engine for that. A
    # walk takes as long as the computer is busy, so no time is too long for it.
    OfWorkflow.TestCase.settings = hypothesis_settings(
        stateful_step_count=STEPS_MAX, phases=set(Phase) - {Phase.explain}, deadline=None
    )
    OfWorkflow.TestCase.addClassCleanup(OfWorkflow.scenery.close)
    OfWorkflow.__name__ = OfWorkflow.__qualname__ = f"MachineOf_{flow.name}"
    return OfWorkflow


class Scenery:
    """What the walks of a state machine share. A store of its own is started when one begins."""

    def __init__(self, scene: Callable[[KitStore], Scene], store: KitStore | None) -> None:
        self._scene, self._given = scene, store
        self._own: KitStore | None = None

    def open(self) -> Scene:
        """Return the scene of a walk."""
        if self._given is None and self._own is None:
            self._own = KitStore().start()
            atexit.register(self.close)
        store = self._given or self._own
        assert store
        return self._scene(store)

    def close(self) -> None:
        """End the store, unless it was given."""
        if self._own:
            self._own.stop()
            self._own = None
            atexit.unregister(self.close)


class DrawnWalk(Chooser):
    """Chooses by numbers that were drawn before: no draw can be made within a step."""

    def __init__(self) -> None:
        self.ways: list[int] = []
        self.asides: list[int] = []

    def choose(self, offers: Sequence[Offer]) -> Offer:
        """Return the offer with the next number, the first one if none is left."""
        number = self.ways.pop(0) if self.ways else 0
        plain = [offer for offer in offers if "!" not in offer.option]
        among = offers if number % 2 else plain  # as often without a fault as among all
        return among[number // 2 % len(among)]

    def aside(self, offers: Sequence[Offer]) -> Offer | None:
        """Return the fault with the next number, None for 0 or if none is left."""
        number = self.asides.pop(0) if self.asides else 0
        return offers[number - 1] if 0 < number <= len(offers) else None


class WalkMachine(RuleBasedStateMachine):
    """The rules of every workflow."""

    scenery: ClassVar[Scenery]

    def __init__(self) -> None:
        super().__init__()
        self.chooser = DrawnWalk()
        self.walk = Walk(self.scenery.open(), self.chooser)
        self.is_over = False

    def go(self, ways: list[int], asides: list[int], act: Callable[[], object]) -> None:
        """Do something, and what follows with these ways and faults. Raises FoundError."""
        self.chooser.ways, self.chooser.asides = [*ways], [*asides]
        act()
        self._check()

    @rule(ways=WAYS, asides=ASIDES)
    def go_on(self, ways: list[int], asides: list[int]) -> None:
        """Let something come from outside, or time pass; nothing once the walk has ended."""

        def act() -> None:
            self.is_over = not self.walk.go_on()

        if not self.is_over:
            self.go(ways, asides, act)

    def teardown(self) -> None:
        """Look at what is left, and delete it."""
        try:
            if self.walk.kit.id and not self.walk.problems.found:
                self.walk.followed()
                self._check()
        finally:
            self.walk.close()

    def _check(self) -> None:
        if found := tuple(self.walk.problems.found.values()):
            name = self.walk.scene.flows[0].name
            raise FoundError(Report(name, 1, findings=found))
