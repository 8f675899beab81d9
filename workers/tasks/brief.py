"""What a keeper is told by who starts it, as a file for its owner only; it decides nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from interlock.workers.files.atomic import write_private

FILE = "brief.json"


@dataclass(frozen=True, slots=True)
class Place:
    """A claimed task with its lease, its turn, and where it is worked on."""

    task_key: str
    task_token: str
    turn: str
    repo: str
    worktree: str
    branch: str
    base: str


@dataclass(frozen=True, slots=True)
class Brief:
    """A newborn agent with its lease, what it is run as, and the place of its first task."""

    agent_key: str
    agent_token: str
    work_folder: str
    command: str
    stream: str
    session: bool
    place: Place

    def write(self) -> Path:
        """Write it below its papers and return the file."""
        file = Path(self.work_folder) / FILE
        write_private(file, json.dumps(asdict(self)))
        return file


def mark_told(work_folder: Path) -> str | None:
    """Return the mark of the agent whose keeper has its papers there; None if none was started."""
    try:
        return str(json.loads((work_folder / FILE).read_text("utf-8"))["agent_key"])
    except (FileNotFoundError, json.JSONDecodeError):
        # A keeper is started with a brief that is whole.
        return None


def read_brief(file: Path) -> Brief:
    """Read one."""
    told = json.loads(file.read_text("utf-8"))
    return Brief(**{**told, "place": Place(**told["place"])})
