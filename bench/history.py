"""Keeps the figures of each run of the benchmark, in the cache of the user who ran it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SHOWN = 12
# The figures that a line of the history shows: where they are, and their name.
COLUMNS = (
    (("lifecycles_per_s", "1"), "lifecycles/s"),
    (("ratio", "1"), "to Celery"),
    (("ratio", "2"), "with two"),
    (("transitions_per_s",), "transitions/s"),
    (("submits_per_s",), "threads/s"),
    (("bytes_per_record",), "bytes"),
)


def path() -> Path:
    """Return the file of the history, which all checkouts of a user share."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "interlock" / "bench.jsonl"


def keep(figures: Mapping[str, Any]) -> None:
    """Add the figures of a run as a line."""
    path().parent.mkdir(parents=True, exist_ok=True)
    with path().open("a") as lines:
        lines.write(json.dumps({**figures, "commit": _commit()}) + "\n")


def rows() -> Iterator[tuple[str, ...]]:
    """Yield the last runs: time, commit and main figures, with - where one was not measured."""
    lines = path().read_text().splitlines()[-SHOWN:] if path().exists() else []
    for line in lines:
        run = json.loads(line)
        day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(run["at"]))
        yield (day, run["commit"], *(_found(run, where) for where, _ in COLUMNS))


def _found(run: Any, where: tuple[str, ...]) -> str:
    for name in where:
        run = run.get(name, {})
    return "-" if run == {} else f"{run:,}"


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "-"
