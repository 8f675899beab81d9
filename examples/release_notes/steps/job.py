"""What a step is told and what it answers: the brief, the reply, and files that are whole."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

SUMMARY_CHARACTERS_MAX = 1000


class StuckError(Exception):
    """The step cannot go on: a person has to look at what this says."""


class LaterError(Exception):
    """What the step met may pass: it wants to be run again."""


class Action(StrEnum):
    """What became of a run."""

    COMPLETED = "COMPLETED"
    STUCK = "STUCK"
    RETRY = "RETRY"


class Verdict(StrEnum):
    """What a reviewer thinks of the work."""

    GOOD = "APPROVAL_REQUIRED"
    NOT_YET = "INTERVENTION_REQUIRED"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a run says at its end."""

    summary: str
    action: Action = Action.COMPLETED
    evidence_files: tuple[str, ...] = ()
    verdict: Verdict | None = None
    reasons: tuple[str, ...] = ()

    def write(self, file: Path) -> None:
        """Write it, without what it does not say."""
        told = {name: value for name, value in asdict(self).items() if value}
        told["summary"] = self.summary[:SUMMARY_CHARACTERS_MAX]
        write_whole(file, json.dumps(told))


@dataclass(frozen=True, slots=True)
class Brief:
    """What a run is told: its job, its folder, what was said about it, and what it may read."""

    step: str
    folder: Path
    told: dict[str, Any]

    def guidance(self, by: str) -> list[str]:
        """Return what the reviewer, or the steward, has said so far, oldest first."""
        return [said["text"] for said in self.told["guidance"] if said["from"] == by]

    def given(self, step: str, name: str) -> str:
        """Return the text of a file that another step handed in."""
        return _read(self.told["dependencies"][step]["evidence"], name, step)

    def own(self, name: str) -> str:
        """Return the text of a file that the job under review handed in."""
        return _read(self.told["evidence"], name, self.step)

    def hand_in(self, name: str, text: str) -> str:
        """Write one of the job's own files, whole, and return its name."""
        write_whole(self.folder / name, text)
        return name


def perform(step: Callable[[Brief], Reply]) -> None:
    """Read the brief, do the step, write the reply; anything unforeseen ends the process."""
    told = json.loads(Path(os.environ["INTERLOCK_JOB_BRIEF"]).read_text("utf-8"))
    name = os.environ["INTERLOCK_JOB_ID"].rpartition("/")[2]
    brief = Brief(step=name, folder=Path(os.environ["INTERLOCK_JOB_DIR"]), told=told)
    try:
        reply = step(brief)
    except StuckError as stuck:
        reply = Reply(str(stuck), action=Action.STUCK)
    except LaterError as later:
        reply = Reply(str(later), action=Action.RETRY)
    print(reply.summary)
    reply.write(Path(os.environ["INTERLOCK_JOB_REPLY"]))


def write_whole(file: Path, text: str) -> None:
    """Write a file so that whoever reads it, after whatever kill, finds all of it or none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=file.parent, prefix=f".{file.name}.", delete=False
    ) as fresh:
        fresh.write(text)
        fresh.flush()
        os.fsync(fresh.fileno())
    Path(fresh.name).replace(file)


def _read(evidence: list[dict[str, str]], name: str, step: str) -> str:
    for one in evidence:
        if one["name"] == name:
            content = Path(one["path"]).read_bytes()
            if sha256(content).hexdigest() != one["sha256"]:
                raise StuckError(f"{name} is no longer what {step} handed in")
            return content.decode("utf-8")
    raise StuckError(f"{step} handed in no {name}")
