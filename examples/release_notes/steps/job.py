"""The brief of a step, its reply, and files that are written completely or not at all."""

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
    """The step cannot go on; a person has to read the message."""


class LaterError(Exception):
    """The step failed for a reason that may pass; it should run again."""


class Action(StrEnum):
    """How a run ended."""

    COMPLETED = "COMPLETED"
    STUCK = "STUCK"
    RETRY = "RETRY"


class Verdict(StrEnum):
    """The verdict of a reviewer."""

    GOOD = "APPROVAL_REQUIRED"
    NOT_YET = "INTERVENTION_REQUIRED"


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a run."""

    summary: str
    action: Action = Action.COMPLETED
    evidence_files: tuple[str, ...] = ()
    verdict: Verdict | None = None
    reasons: tuple[str, ...] = ()

    def write(self, file: Path) -> None:
        """Write the reply to a file, without its empty fields."""
        fields = {name: value for name, value in asdict(self).items() if value}
        fields["summary"] = self.summary[:SUMMARY_CHARACTERS_MAX]
        write_whole(file, json.dumps(fields))


@dataclass(frozen=True, slots=True)
class Brief:
    """The brief of a run: its step, its folder, and the fields of the brief's file."""

    step: str
    folder: Path
    fields: dict[str, Any]

    def guidance(self, by: str) -> list[str]:
        """Return the reasons that the reviewer, or the steward, gave so far, oldest first."""
        return [remark["text"] for remark in self.fields["guidance"] if remark["from"] == by]

    def given(self, step: str, name: str) -> str:
        """Return the text of a file that another step handed in."""
        return _read(self.fields["dependencies"][step]["evidence"], name, step)

    def own(self, name: str) -> str:
        """Return the text of a file that the job under review handed in."""
        return _read(self.fields["evidence"], name, self.step)

    def hand_in(self, name: str, text: str) -> str:
        """Write one of the job's own files, whole, and return its name."""
        write_whole(self.folder / name, text)
        return name


def perform(step: Callable[[Brief], Reply]) -> None:
    """Read the brief, run the step, write the reply; an unexpected error ends the process."""
    fields = json.loads(Path(os.environ["INTERLOCK_JOB_BRIEF"]).read_text("utf-8"))
    name = os.environ["INTERLOCK_JOB_ID"].rpartition("/")[2]
    brief = Brief(step=name, folder=Path(os.environ["INTERLOCK_JOB_DIR"]), fields=fields)
    try:
        reply = step(brief)
    except StuckError as stuck:
        reply = Reply(str(stuck), action=Action.STUCK)
    except LaterError as later:
        reply = Reply(str(later), action=Action.RETRY)
    print(reply.summary)
    reply.write(Path(os.environ["INTERLOCK_JOB_REPLY"]))


def write_whole(file: Path, text: str) -> None:
    """Replace a file so that a reader finds all of it or none, even if the writer is killed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=file.parent, prefix=f".{file.name}.", delete=False
    ) as fresh:
        fresh.write(text)
        fresh.flush()
        os.fsync(fresh.fileno())
    Path(fresh.name).replace(file)


def _read(evidence: list[dict[str, str]], name: str, step: str) -> str:
    for file in evidence:
        if file["name"] == name:
            content = Path(file["path"]).read_bytes()
            if sha256(content).hexdigest() != file["sha256"]:
                raise StuckError(f"{name} is no longer what {step} handed in")
            return content.decode("utf-8")
    raise StuckError(f"{step} handed in no {name}")
