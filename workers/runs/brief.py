"""What a run's conductor is told by who starts it, as a file for its owner only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from interlock.workers.files.atomic import write_private

FILE = "brief.json"


@dataclass(frozen=True, slots=True)
class RunBrief:
    """One run to conduct: its lease, and where its papers are."""

    key: str
    token: str
    work_folder: str

    def write(self) -> Path:
        """Write it into its papers and return the file."""
        file = Path(self.work_folder) / FILE
        write_private(file, json.dumps(asdict(self)))
        return file


def read_brief(file: Path) -> RunBrief:
    """Read one."""
    return RunBrief(**json.loads(file.read_text("utf-8")))
