"""What a keeper is told by who starts it, as a file for its owner only; it decides nothing."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Brief:
    """A claimed task and a newborn agent, with the leases of both to be taken over."""

    task_key: str
    task_token: str
    agent_key: str
    agent_token: str
    turn: str
    repo: str
    worktree: str
    branch: str
    base: str
    papers: str
    command: str
    stream: str

    def write(self) -> Path:
        """Write it below its papers and return the file."""
        folder = Path(self.papers)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = folder / "brief.json"
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            json.dump(asdict(self), out)
        return file


def read_brief(file: Path) -> Brief:
    """Read one."""
    return Brief(**json.loads(file.read_text("utf-8")))
