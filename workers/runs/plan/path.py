"""A path that a plan may name: inside of the workspace, also behind links; it opens nothing."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

# What rolls a workspace back, and what it is rolled back from, is no codon's to copy.
PROTECTED = (".git", ".interlock")


def path_within(workspace: Path, written: str) -> Path:
    """Return where a path leads, links followed. Raises ValueError, which says what to write."""
    inside = "write a path inside of the workspace, seen from it, like data/raw.csv"
    if "\0" in written:
        raise ValueError("no path has a NUL character; take it out")
    path = PurePosixPath(written)
    if path.is_absolute():
        raise ValueError(f"it is absolute; {inside}")
    if written.startswith("~"):
        raise ValueError(f"only a shell knows ~; {inside}")
    if ".." in path.parts:
        raise ValueError(f"it goes up with ..; {inside}")
    if not path.parts:
        raise ValueError("it is the whole workspace; name a file or folder in it")
    root = workspace.resolve()
    try:
        place = (root / path).resolve()
    except (OSError, RuntimeError) as error:
        raise ValueError("its links lead nowhere; name another path") from error
    if place == root or root not in place.parents:
        raise ValueError(f"a link leads out of the workspace, to {place}; {inside}")
    for part in (*path.parts, *place.relative_to(root).parts):
        # Some file systems take .GIT for the same folder.
        if part.casefold() in PROTECTED:
            raise ValueError(f"{part} is kept for checkpoints; name another path")
    return place
