"""Replaces a file or folder by a copy of another one: the program `rig_copy.py SOURCE TARGET`.

It is a process of its own, so that it dies when the run's lease is lost. A target that contains a
git repository is refused: no checkpoint holds a repository, so it could not be restored.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

GIT = ".git"


def main(source: Path, target: Path) -> str:
    """Copy; return the problem, or an empty text where the copy is made."""
    if repository := repository_in(target):
        return f"{repository} is a git repository, which no checkpoint can hold; move it away first"
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
    """Return the first git repository at or below a target; an empty text where there is none."""
    if not target.is_dir() or target.is_symlink():
        return ""
    found = (folder for folder, names, files in os.walk(target) if GIT in (*names, *files))
    return next(found, "")


if __name__ == "__main__":
    problem = main(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.exit(problem or 0)
