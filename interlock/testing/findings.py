"""What an exploration has found, in sentences, each with the walk that shows it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.testing.said import KitError

DATA = "data-"  # before the number of the data that a walk begins with, where it is not the first


class FindingKind(StrEnum):
    """What is wrong."""

    CALLED_TWICE = "called twice"
    STRANDED = "stranded"
    UNSEEN = "unseen"
    UNREACHED = "never reached"
    BROKEN = "promise broken"


@dataclass(frozen=True, slots=True)
class WalkFinding:
    """Something that is wrong. `replay` is the walk on which it is seen; `what` it is about."""

    kind: FindingKind
    what: str
    sentence: str
    replay: str = ""

    @property
    def length(self) -> int:
        """How much is chosen on its walk."""
        return len(self.replay.split())

    def __str__(self) -> str:
        return f"{self.kind}: {self.sentence}\n    replay={self.replay!r}"


class WalkFindings:
    """What a walk has found, each once, with the trace of the walk up to there."""

    def __init__(self, data: int, trace: Sequence[str]) -> None:
        self._data, self._trace = data, trace
        self.found: dict[tuple[FindingKind, str], WalkFinding] = {}

    def note(self, kind: FindingKind, what: str, sentence: str) -> None:
        """Note what is wrong, if nothing of the kind is known about the same."""
        replay = replay_of(self._data, self._trace)
        self.found.setdefault((kind, what), WalkFinding(kind, what, sentence, replay))


def replay_of(data: int, trace: Sequence[str], row: str = "") -> str:
    """Return a walk as a text: the number of its data if there are several, and its choices.

    `row` is the one that is never followed on it, if that is what was found.
    """
    first = [f"{DATA}{data}"] if data else []
    return " ".join([*first, *trace, *([f"?{row}"] if row else [])])


def read_replay(text: str) -> tuple[int, list[str], str]:
    """Return the number of the data, the choices, and the row that is never followed, or ''."""
    words = text.split()
    data = int(words.pop(0).removeprefix(DATA)) if text.startswith(DATA) else 0
    row = words.pop().removeprefix("?") if words and words[-1].startswith("?") else ""
    return data, words, row


@dataclass(frozen=True, slots=True)
class Report:
    """What came of an exploration.

    `rows` are the cells of the tables (a state and a trigger) that were followed, of all that
    there are; an exploration is whole if neither time nor the number of walks has ended it.
    """

    name: str
    walks: int
    seconds: float = 0.0
    rows: tuple[int, int] = (0, 0)
    is_whole: bool = True
    findings: tuple[WalkFinding, ...] = ()

    def __str__(self) -> str:
        followed, known = self.rows
        walks = "1 walk" if self.walks == 1 else f"{self.walks} walks"
        rows = f", {followed} of {known} rows, {self.seconds:.1f} s" if known else ""
        end = "" if self.is_whole else ", and there is more to try: it was ended"
        return "\n".join([f"{self.name}: {walks}{rows}{end}", *map(str, self.findings)])


class FoundError(KitError):
    """An exploration has found what is wrong. The message has all of it; `report` is the whole."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report
