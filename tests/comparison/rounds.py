"""What a round of the comparison returns, and what all rounds do: wait, kill, call as a user."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.end_to_end.up import Up, running_up

HERE = Path(__file__).parent
PROGRAMS = HERE.parents[1] / "examples" / "own"
LEASE_S = "5"


@dataclass(frozen=True)
class Round:
    """The figures of one product with one program, and which promises of ours it broke."""

    product: str
    program: str
    figures: str
    broken: Sequence[str] = ()


def counted(times: Counter[int], what: str) -> str:
    """Return how many were asked or paid how often, such as `paid once 11, twice 1`."""
    words = {0: "never", 1: "once", 2: "twice"}
    each = (f"{words.get(number, f'{number} times')} {times[number]}" for number in sorted(times))
    return f"{what} {', '.join(each)}"


@contextmanager
def running(
    program: str, *files: Path, changes: Mapping[str, str] | None = None, **variables: str
) -> Iterator[Up]:
    """Run `interlock up` with a program of examples/own in a folder of its own, beside these files.

    In the program, the words of `changes` are replaced.
    """
    folder = Path(tempfile.mkdtemp(prefix="own-"))
    text = (PROGRAMS / program).read_text("utf-8")
    for old, new in (changes or {}).items():
        assert old in text, f"{program} has no {old}"
        text = text.replace(old, new)
    (folder / program).write_text(text, "utf-8")
    for file in files:
        shutil.copy(file, folder / file.name)
    with running_up(folder, program, **variables, INTERLOCK_LEASE_S=LEASE_S) as up:
        yield up


def kill_workers(up: Up) -> None:
    """Kill the worker that runs the steps of workflows, as a computer that is short of memory does.

    Its supervisor starts another one.
    """
    for process in up.processes():
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode().split("\0")
        if any(word.startswith("worker@") for word in words):
            os.kill(process, signal.SIGKILL)


def shown(up: Up, record: str) -> Any:
    """Return what `interlock show` says of a record."""
    return json.loads(up.command("show", record, "--json"))


def as_user(up: Up, name: str, *calls: Sequence[Any]) -> list[str]:
    """Make calls of a client, in one program of its user; return what each was told, if refused."""
    done = subprocess.run(
        [sys.executable, str(HERE / "user.py"), name],
        input=json.dumps(calls),
        cwd=up.folder,
        env={**up.environment, "PYTHONPATH": str(up.folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: list[str] = json.loads(done.stdout)
    return told
