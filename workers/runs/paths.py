"""Where a run leaves what it prints and keeps: the papers of its codons; it makes no checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from interlock.workers.config import PREFIX, Settings

FOLDER = "runs"
# What the process of a model's codon is told: which model, and where the conversation is kept.
MODEL = f"{PREFIX}CODON_MODEL"
CONVERSATION = f"{PREFIX}CONVERSATION"


@dataclass(frozen=True, slots=True)
class RunPlace:
    """One run on its machine: `id` is <workspace>/<number>."""

    id: str
    settings: Settings

    @property
    def work_folder(self) -> Path:
        """Where what belongs to the run itself is."""
        return self.settings.home.absolute() / FOLDER / self.id

    def codon(self, number: int) -> CodonPlace:
        """Return the place of one execution, by its number in the run."""
        return CodonPlace(f"{self.id}/{number}", self.work_folder / f"{number:04d}")


@dataclass(frozen=True, slots=True)
class CodonPlace:
    """One execution of a codon: its record's id and its folder."""

    id: str
    folder: Path

    @property
    def output(self) -> Path:
        """What its process prints."""
        return self.folder / "output.log"

    @property
    def errors(self) -> Path:
        """What its process complains of."""
        return self.folder / "errors.log"

    @property
    def prompt(self) -> Path:
        """What a model is asked."""
        return self.folder / "prompt.txt"

    @property
    def conversation(self) -> Path:
        """What a model and its codon said to each other, up to the end of this execution."""
        return self.folder / "conversation.json"

    @property
    def mark(self) -> Path:
        """Under which mark its processes run: who clears up after a lost conductor reads it."""
        return self.folder / "mark"


def marks_of(key: str) -> tuple[str, str]:
    """Return the marks of the processes of an execution: the agent's, and its sentinels'."""
    return key, f"{key}~sentinels"


def codon_place(codon: str, settings: Settings) -> CodonPlace:
    """Return the place of a codon's record."""
    run, _, number = codon.rpartition("/")
    return RunPlace(run, settings).codon(int(number))
