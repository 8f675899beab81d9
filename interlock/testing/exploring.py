"""Explores a workflow: walks all its rows, with a fault at each point, and says what is wrong."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from interlock.kernel.errors import KernelError
from interlock.testing.findings import FindingKind, FoundError, Report, WalkFinding, read_replay
from interlock.testing.rows import Unreached
from interlock.testing.said import KitError
from interlock.testing.search import Replay, Search, Wander
from interlock.testing.stand_ins import first_data
from interlock.testing.steps import with_children
from interlock.testing.store import KitStore
from interlock.testing.walk import Chooser, Row, Walk
from interlock.testing.walk_kit import FAIL, RAISE, Scene, scene_of
from interlock.workflow.data import Data
from interlock.workflow.workflow import Workflow

D = TypeVar("D", bound=Data)

WALKS_MAX = 5_000
SECONDS_MAX = 60.0
SHRINKS_MAX = 100  # so many shorter walks are tried for each finding


def explore(
    flow: Workflow[D],
    data: D | Sequence[D] | None = None,
    /,
    *others: Workflow[Any],
    real: bool = False,
    fakes: Mapping[str, Callable[..., Any]] | None = None,
    once: Collection[str] = (),
    seed: int = 0,
    walks: int = WALKS_MAX,
    seconds: float = SECONDS_MAX,
    replay: str = "",
    store: KitStore | None = None,
    settings: Mapping[str, str] | None = None,
) -> Report:
    """Walk all rows of a workflow, with a fault at each point. Raises FoundError if it finds any.

    Records begin with `data`, or with several in turn; without it with a value of their types.
    Stand-ins are called for steps, with each outcome that they declare; with `real` the functions
    of the steps, and of `fakes` those that it names. A step of `once` must not be called twice,
    beside those that say so themselves. When all was tried once, as many walks are random, by the
    `seed`; it ends before that after so many `walks` or `seconds`. With `replay`, the walk of a
    finding, it alone is walked. `others` are workflows that it works with; `store` runs already.
    """
    flows = with_children((flow, *others))
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        found = store or stack.enter_context(KitStore())
        scene = scene_of(flows, found, settings, fakes, once, real=real)
        exploration = Exploration(scene, _begun_with(flow, data), walks, seconds)
        report = exploration.replayed(replay) if replay else exploration.explored(seed)
    if report.findings:
        raise FoundError(report)
    return report


@contextmanager
def _quiet() -> Iterator[None]:
    """Let the engine log no failure: the walks ask for them, and there are hundreds."""
    log = logging.getLogger("interlock")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _begun_with(flow: Workflow[Any], data: Data | Sequence[Data] | None) -> Sequence[Data]:
    found: Sequence[Data | None] = (
        [data] if isinstance(data, Data) else (data or [first_data(flow)])
    )
    for one in found:
        if not isinstance(one, flow.data):
            name = flow.data.__name__
            raise KitError(f"a {flow.name} begins with {name}, and not with {one!r}: give one")
    return [one for one in found if one is not None]


@dataclass(slots=True)
class Exploration:
    """Walks, and what they have found by then."""

    scene: Scene
    begun_with: Sequence[Data]
    walks_max: int
    seconds_max: float
    walks: int = 0
    followed: set[Row] = field(default_factory=set)
    refusals: dict[tuple[str, str, str], str] = field(default_factory=dict)
    found: dict[tuple[FindingKind, str], WalkFinding] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def explored(self, seed: int) -> Report:
        """Walk until all was tried, then as often at random; or until it is ended before."""
        ways: dict[tuple[str, str], tuple[int, list[str]]] = {}
        for number in range(len(self.begun_with)):
            search = Search(is_real=bool(self.scene.real or self.scene.fakes))
            while search.is_left and not self._is_over:
                self._walk(number, search)
            for node, way in search.ways.items():
                ways.setdefault(node, (number, way))
        is_whole, chooser = not self._is_over, Wander(seed)
        for number in range(self.walks):
            if not self._is_over:
                self._walk(number % len(self.begun_with), chooser)
        left = self._unreached(ways)
        found = [self._shrunk(finding) for finding in self.found.values()]
        if is_whole:
            found += left.findings()
        return self._report(found, left.counts, is_whole=is_whole)

    def replayed(self, text: str) -> Report:
        """Walk once, as the walk of a finding says."""
        number, trace, row = read_replay(text)
        if number >= len(self.begun_with):
            raise KitError(f"the walk begins with data {number}: give the data of that time")
        if misfit := self._repeat(number, trace, is_tried=bool(row)):
            raise KitError(misfit)
        left = self._unreached({})
        findings = [*self.found.values()]
        if row and tuple(row.split("/")) not in self.followed:
            _, source, trigger, target = row.split("/")
            said = f"{source} did not lead to {target} by {trigger}"
            refusals = (why for key, why in self.refusals.items() if key[1] == source)
            said = ": ".join([said, *refusals])
            findings.append(WalkFinding(FindingKind.UNREACHED, target, said, text))
        return self._report(findings, left.counts, is_whole=True)

    def _repeat(self, number: int, trace: Sequence[str], *, is_tried: bool = False) -> str:
        """Walk a walk again, and return why it does not fit, or ''."""
        chooser = Replay(trace, is_tried=is_tried)
        self._walk(number, chooser)
        return chooser.misfit

    def _shrunk(self, finding: WalkFinding) -> WalkFinding:
        """Return a finding with a shorter walk that shows it too, where there is one."""
        number, trace, _ = read_replay(finding.replay)
        # A step that raises again and again is one that fails.
        fails = re.sub(rf"(\S+):{RAISE}( \1:{RAISE})+", rf"\1:{FAIL}", finding.replay)
        if fails != finding.replay:
            finding = self._found_by(number, read_replay(fails)[1], finding) or finding
            trace = read_replay(finding.replay)[1]
        size, tries = len(trace) // 2, SHRINKS_MAX
        while size:
            for first in range(min(len(trace) - size + 1, tries)):
                tries -= 1
                shorter = [*trace[:first], *trace[first + size :]]
                found = self._found_by(number, shorter, finding)
                if found and found.length < finding.length:
                    finding, trace = found, read_replay(found.replay)[1]
                    break
            else:
                size //= 2
        return finding

    def _found_by(
        self, number: int, trace: Sequence[str], finding: WalkFinding
    ) -> WalkFinding | None:
        """Return what a walk finds of the kind of a finding, about the same."""
        alone = Exploration(self.scene, self.begun_with, 1, self.seconds_max)
        misfit = alone._repeat(number, trace)
        return None if misfit else alone.found.get((finding.kind, finding.what))

    @property
    def _is_over(self) -> bool:
        return self.walks >= self.walks_max or time.monotonic() - self.began > self.seconds_max

    def _walk(self, number: int, chooser: Chooser) -> None:
        self.walks += 1
        walk = Walk(self.scene, chooser, number)
        try:
            chooser.begin(walk.trace)
            walk.begin(self.begun_with[number].model_copy(deep=True))
            while not chooser.is_over and walk.go_on():
                pass
            self.followed |= walk.followed()
        except (KernelError, KitError) as failure:
            said = f"a walk cannot go on: {failure}"
            walk.problems.note(FindingKind.STRANDED, str(failure), said)
        finally:
            chooser.end()
            walk.close()
        for key, finding in walk.problems.found.items():
            known = self.found.get(key)
            if known is None or finding.length < known.length:
                self.found[key] = finding
        self.refusals |= walk.acts.refusals

    def _unreached(self, ways: Mapping[tuple[str, str], tuple[int, list[str]]]) -> Unreached:
        scene = self.scene
        return Unreached(scene.walked, self.followed, self.refusals, ways, is_real=scene.is_real)

    def _report(
        self, findings: Sequence[WalkFinding], rows: tuple[int, int], *, is_whole: bool
    ) -> Report:
        name = self.scene.flows[0].name
        passed = time.monotonic() - self.began
        return Report(name, self.walks, passed, rows, is_whole, tuple(findings))
