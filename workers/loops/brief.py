"""What a session's keeper is told by who starts it, as a file for its owner only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from interlock.workers.files.atomic import write_private

FILE = "brief.json"


@dataclass(frozen=True, slots=True)
class SessionBrief:
    """One attempt to run a session: its lease, its command, its stored prompt, where it runs."""

    key: str
    token: str
    work_folder: str
    worktree: str
    command: str
    prompt: str
    digest: str
    session_seq: int

    def write(self) -> Path:
        """Write it below its papers and return the file."""
        file = Path(self.work_folder) / FILE
        write_private(file, json.dumps(asdict(self)))
        return file


def read_brief(file: Path) -> SessionBrief:
    """Read one."""
    return SessionBrief(**json.loads(file.read_text("utf-8")))


def key_told(work_folder: Path) -> str | None:
    """Return the key of the session whose papers these are; None where none was started."""
    try:
        return read_brief(work_folder / FILE).key
    except (FileNotFoundError, json.JSONDecodeError):
        return None
