"""Copies a file or folder into the place of another: `rig_copy.py SOURCE TARGET`, as a process.

A process of its own, so that whoever loses the run's lease loses this too. It takes nothing away
that no checkpoint holds: a target in which there is a repository's .git is refused.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

GIT = ".git"


def main(source: Path, target: Path) -> str:
    """Copy, and return what is wrong; '' where nothing is."""
    if kept := repository_in(target):
        return f"{kept} is a repository, and no checkpoint holds it; move it away first"
    try:
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target)
    except (OSError, shutil.Error) as error:
        return str(error)
    return ""


def repository_in(target: Path) -> str:
    """Return a folder at or below a target that is a repository; '' where there is none."""
    if not target.is_dir() or target.is_symlink():
        return ""
    found = (folder for folder, names, files in os.walk(target) if GIT in (*names, *files))
    return next(found, "")


if __name__ == "__main__":
    problem = main(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.exit(problem or 0)
