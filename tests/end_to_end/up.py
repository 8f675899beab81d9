"""A real `interlock up` in a folder of its own, and the commands of its user."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.processes import kill_marked, marked
from tests.waiting import until

INTERLOCK = str(Path(sys.executable).with_name("interlock"))
MARK = "STARTED_BY_UP"
LIMIT_S = 280.0


@dataclass
class Up:
    """A running `interlock up`: its folders, its process, and what it printed."""

    folder: Path
    environment: dict[str, str]
    process_id: int
    addresses: dict[str, str]
    printed: str

    @property
    def home(self) -> Path:
        """The home."""
        return self.folder / "home"

    def command(self, *words: str) -> str:
        """Run a command of the same user in another terminal."""
        done = subprocess.run(
            [INTERLOCK, *words], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def processes(self) -> list[int]:
        """Return all processes that `up` has started."""
        return list(marked(MARK, self.folder.name))


@contextmanager
def running_up(folder: Path, *words: str, **variables: str) -> Iterator[Up]:
    """Run `interlock up` with a home where everybody can come, as in a folder of a project.

    It is given these words and variables. The folder is removed at the end.
    """
    folder.chmod(0o755)
    for name in ("home", "state"):
        (folder / name).mkdir(mode=0o755)
    environment = {name: value for name, value in os.environ.items() if "INTERLOCK" not in name}
    environment |= {
        MARK: folder.name,
        "XDG_STATE_HOME": str(folder / "state"),
        "INTERLOCK_HOME": str(folder / "home"),
        **variables,
    }
    # A second file, since `up` may say after its addresses that it took another port.
    log, notices = folder / "printed", folder / "notices"
    with log.open("wb") as output, notices.open("wb") as errors:
        process = subprocess.Popen(
            [INTERLOCK, "up", "--json", *words],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=errors,
            umask=0o022,
        )
    try:
        until(
            lambda: log.read_text().rstrip().endswith("}") or process.poll() is not None,
            what="it is up, or has ended",
            within_s=LIMIT_S,
        )
        printed = log.read_text()
        text = printed + notices.read_text()
        yield Up(folder, environment, process.pid, json.loads(printed), text)
    finally:
        for file in folder.rglob("worktrees/**/file"):
            file.with_name("may_end").touch()
        process.send_signal(signal.SIGINT)
        process.wait(LIMIT_S)
        kill_marked(MARK, folder.name, patience_s=LIMIT_S)
        shutil.rmtree(folder)
