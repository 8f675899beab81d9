"""Watches the files of a deployment's own systems, and tries their code when one has changed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from interlock.systems import NAMES
from interlock.workers.config import environment_without_settings
from interlock.workers.engine.own_systems import added_systems
from interlock.workers.ops.part import exit_text, last_line
from interlock.workers.processes.bound_process import end_bound, start_bound

TRY_S = 60.0
END_S = 2.0
FOLDER = "the folder "


class Reloaded(Protocol):
    """What a deployment does for those who watch its files."""

    def environment(self) -> Mapping[str, str]:
        """Return the settings of its processes, as their variables."""
        ...

    def restart(self, pools: Mapping[str, list[str]]) -> None:
        """Start the processes with the code that is there now."""
        ...


class SystemFiles:
    """The modules that an import of the systems runs, and all others in the packages of these.

    A module that is installed, or a part of Python or of Interlock, is not watched; nor is a file
    that is no module. While the code is wrong, the names in its folders are watched too: one that
    comes may be the module that is missing.
    """

    def __init__(self, since_ns: int) -> None:
        """Watch for what changes from a time on, when nothing was imported yet."""
        own = (one for name, one in added_systems().items() if name not in NAMES)
        sources = (where for one in own for where in one.machines.values())
        modules = (sys.modules[where.partition(":")[0]] for where in sources)
        self._own = {Path(str(module.__file__)) for module in modules}
        self._seen: dict[Path, object] = {path: _state(path) for path in self._own}
        self._began_ns = since_ns
        self._knows_all = False  # a first trial says which modules these import
        self._trial: Trial | None = None
        self._tried = ""  # what has changed, as a sentence
        self._untried = self._younger(self._own)
        self._fault = ""

    def reload(self, deployment: Reloaded) -> str:
        """Start the processes with the code of a file that has changed, if it can be imported.

        A process of its own tries the code meanwhile. Return the sentence about its end, or ''.
        """
        self._untried = self._difference() or self._untried
        if self._trial is None:
            if self._untried or not self._knows_all:
                self._began_ns = time.time_ns() if self._knows_all else self._began_ns
                self._tried, self._untried, self._knows_all = self._untried, "", True
                self._trial = Trial(deployment.environment())
            return ""
        if (verdict := self._trial.verdict()) is None:
            return ""
        self._trial = None
        self._watch(verdict)
        if self._untried or not self._tried:
            return ""  # it changed once more and is tried again; or only the names were wanted
        known, self._fault = self._fault, verdict.fault
        if not verdict.fault:
            deployment.restart(verdict.pools)
            return f"{self._tried}: the processes have its new code"
        if verdict.fault == known and self._tried.startswith(FOLDER):
            return ""  # what came into the folder was not what is missing
        return f"{self._tried} and is not used, since it is wrong: {verdict.fault}"

    def close(self) -> None:
        """End a trial that runs."""
        if self._trial:
            self._trial.end()

    def _difference(self) -> str:
        """Return what has changed since the last look, as a sentence, or ''."""
        now = {path: _state(path) for path in self._seen}
        differs = [path for path in now if self._seen[path] != now[path]]
        self._seen = now
        return _changed(min(differs, key=Path.is_dir)) if differs else ""

    def _watch(self, verdict: Verdict) -> None:
        """Watch what was read. A file that is new here may have changed since it was read."""
        files = self._own | {path for path in verdict.read or self._seen if not path.is_dir()}
        folders = {path.parent for path in files} if verdict.fault else set()
        now = {path: self._seen.get(path, _state(path)) for path in files | folders}
        self._untried = self._younger(files - self._seen.keys()) or self._untried
        self._seen = now

    def _younger(self, files: Iterable[Path]) -> str:
        """Return what has changed since the trial began that read these files, or ''."""
        states = {path: _state(path) for path in files}
        found = (p for p, at in states.items() if not isinstance(at, int) or at >= self._began_ns)
        return next(map(_changed, found), "")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a trial has found: why the code cannot be used, what it read, and its pools."""

    fault: str
    read: frozenset[Path] = frozenset()  # empty if it could not say
    pools: Mapping[str, list[str]] = field(default_factory=dict)


class Trial:
    """A process that imports the code, and ends with this one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._folder = TemporaryDirectory(prefix="interlock-trial-")
        self._answer = Path(self._folder.name, "answer")
        self._output = Path(self._folder.name, "output")
        with self._output.open("wb") as output:
            self._process = start_bound(
                [sys.executable, "-m", "interlock.workers.ops.trial", str(self._answer)],
                folder=Path.cwd(),
                output=output,
                grace_s=END_S,
                environment={**environment_without_settings(), **environment},
            )
        self._late_s = time.monotonic() + TRY_S

    def verdict(self) -> Verdict | None:
        """Return what it has found, None while it runs."""
        code = self._process.poll()
        if code is None and time.monotonic() < self._late_s:
            return None
        try:
            return self._found(code)
        finally:
            self.end()

    def _found(self, code: int | None) -> Verdict:
        if code is None:
            return Verdict(f"its import takes longer than {TRY_S:g} s")
        try:
            found = json.loads(self._answer.read_bytes())
        except (OSError, ValueError):
            said = f"its import ended the process with {exit_text(code)}"
            return Verdict(f"{said}: {last_line(self._output)}")
        return Verdict(found["fault"], frozenset(map(Path, found["read"])), found["pools"])

    def end(self) -> None:
        """End the process, and forget what it wrote."""
        end_bound(self._process, patience_s=2 * END_S)
        self._folder.cleanup()


def _state(path: Path) -> object:
    """Return what differs once a file has changed, or the names in a folder; None if it is gone."""
    try:
        if path.is_dir():
            return sorted(one.name for one in path.iterdir() if one.name != "__pycache__")
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _changed(path: Path) -> str:
    if path.is_dir():
        return f"{FOLDER}{path.name} has changed"
    return f"{path.name} has changed" if path.exists() else f"{path.name} is gone"
