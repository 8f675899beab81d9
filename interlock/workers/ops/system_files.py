"""Watches the files of a deployment's own systems, and tries their code when one has changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from interlock.workers.config import environment_without_settings
from interlock.workers.engine.own_systems import added_systems
from interlock.workers.ops.deployment import Deployment

TRY_S = 60.0


class SystemFiles:
    """The modules with the tables of added systems, and those beside them that they import."""

    def __init__(self) -> None:
        sources = (where for one in added_systems().values() for where in one.machines.values())
        self._folders = {_folder_of(where.partition(":")[0]) for where in sources}
        self._seen = self._times()

    def reload(self, deployment: Deployment) -> str:
        """Start the processes with the code of a file that has changed, if it can be imported.

        Return the sentence about it, or '' where nothing has changed.
        """
        changed = self.changed()
        if not changed:
            return ""
        if fault := self.fault(deployment.environment()):
            return f"{changed} has changed and is not used, since it is wrong: {fault}"
        deployment.restart()
        return f"{changed} has changed: the processes have its new code"

    def changed(self) -> str:
        """Return the name of a file that has changed since the last call, or ''."""
        now = self._times()
        differs = [path for path in now if self._seen.get(path) != now[path]]
        self._seen = now
        return differs[0].name if differs else ""

    def fault(self, environment: Mapping[str, str]) -> str:
        """Return why the code cannot be used, as a process of its own finds it, or ''."""
        try:
            tried = subprocess.run(
                [sys.executable, "-m", "interlock", "machines"],
                env={**environment_without_settings(), **environment},
                check=False,
                capture_output=True,
                text=True,
                timeout=TRY_S,
            )
        except subprocess.TimeoutExpired:
            return f"its import takes longer than {TRY_S:g} s"
        lines = (tried.stderr or tried.stdout).strip().splitlines()
        return lines[-1] if tried.returncode and lines else ""

    def _times(self) -> dict[Path, int]:
        loaded = (getattr(module, "__file__", None) for module in [*sys.modules.values()])
        files = (Path(file) for file in loaded if file)
        return {
            file: file.stat().st_mtime_ns
            for file in files
            if file.parent in self._folders and file.is_file()
        }


def _folder_of(module: str) -> Path:
    return Path(str(sys.modules[module].__file__)).parent
