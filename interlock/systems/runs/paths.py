"""Paths of the files that a run and its codons leave on their machine."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from interlock import Settings

FOLDER = "runs"
SLUG_LENGTH_MAX = 40
# Variables of the process of a model's codon: which model it asks, and its conversation's file.
MODEL_VARIABLE = "INTERLOCK_CODON_MODEL"
CONVERSATION_VARIABLE = "INTERLOCK_CONVERSATION"
COSTS_LIMITED_VARIABLE = "INTERLOCK_COSTS_LIMITED"


def workspace_id(folder: Path, host: str) -> str:
    """Return the id of the workspace of a folder on a computer."""
    resolved = folder.resolve()
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", resolved.name).strip("-._")[:SLUG_LENGTH_MAX] or "root"
    digest = hashlib.sha256(f"{host}:{resolved}".encode()).hexdigest()[:8]
    return f"{slug}-{digest}"


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The paths of one run; `id` is <workspace>/<number>."""

    id: str
    settings: Settings

    @property
    def work_folder(self) -> Path:
        """The folder that holds the run's own files and the folders of its codons."""
        return self.settings.home.absolute() / FOLDER / self.id

    def codon(self, number: int) -> CodonPaths:
        """Return the paths of one execution, by its number in the run."""
        return CodonPaths(f"{self.id}/{number}", self.work_folder / f"{number:04d}")


@dataclass(frozen=True, slots=True)
class CodonPaths:
    """The paths of one execution of a codon; `id` is the id of its record."""

    id: str
    folder: Path

    @property
    def output(self) -> Path:
        """The standard output of its process."""
        return self.folder / "output.log"

    @property
    def conversation(self) -> Path:
        """The messages between a model and its codon, up to the end of this execution."""
        return self.folder / "conversation.json"

    @property
    def sentinels(self) -> Path:
        """The folder by which what its sentinels leave running is found."""
        return self.folder / "sentinels"


def codon_paths(codon_id: str, settings: Settings) -> CodonPaths:
    """Return the paths of the execution that a codon's record is about."""
    run_id, _, number = codon_id.rpartition("/")
    return RunPaths(run_id, settings).codon(int(number))
