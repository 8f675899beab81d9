"""Checks that a path in a plan is inside the workspace, also after its links are followed."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

# A rig must not overwrite the checkpoints of a workspace, nor a git repository.
PROTECTED = (".git", ".interlock")


def path_within(workspace: Path, written: str) -> Path:
    """Return the path with its links followed. Raises ValueError, which says what to write."""
    advice = "write a path inside the workspace, relative to it, like data/raw.csv"
    if "\0" in written:
        raise ValueError("no path has a NUL character; take it out")
    path = PurePosixPath(written)
    if path.is_absolute():
        raise ValueError(f"it is absolute; {advice}")
    if written.startswith("~"):
        raise ValueError(f"only a shell replaces ~; {advice}")
    if ".." in path.parts:
        raise ValueError(f"it goes up with ..; {advice}")
    if not path.parts:
        raise ValueError("it is the whole workspace; name a file or folder in it")
    root = workspace.resolve()
    try:
        target = (root / path).resolve()
    except (OSError, RuntimeError) as error:
        raise ValueError("its links cannot be followed; name another path") from error
    if target == root or root not in target.parents:
        raise ValueError(f"a link leads out of the workspace, to {target}; {advice}")
    for part in (*path.parts, *target.relative_to(root).parts):
        # Some file systems treat .GIT as the same folder.
        if part.casefold() in PROTECTED:
            raise ValueError(f"{part} is reserved for checkpoints and git; name another path")
    return target
