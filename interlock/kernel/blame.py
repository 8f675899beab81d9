"""Says what went wrong in code that is not Interlock's, and in which line of whose file."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

OURS = f"{Path(__file__).parents[1]}/"
OF_PYTHON = f"{sysconfig.get_path('stdlib')}/"


def blamed(failure: BaseException) -> str:
    """Return an error as a sentence, with the last line of a person's own file on the way to it."""
    kind = type(failure).__name__
    if isinstance(failure, SyntaxError) and failure.filename:
        return f"{kind}: {failure.msg} ({failure.filename}, line {failure.lineno})"
    frames = traceback.extract_tb(failure.__traceback__)
    text = f"{kind}: {' '.join(str(failure).split())}"
    if not frames:
        return text
    frame = max(reversed(frames), key=lambda frame: _nearness(frame.filename))
    return f"{text} ({frame.filename}, line {frame.lineno})"


def _nearness(file: str) -> int:
    """Rank a file: 3 if a person's own, 2 if installed, 1 if Interlock's, 0 if Python's."""
    if {"site-packages", "dist-packages"} & set(Path(file).parts):
        return 1 if file.startswith(OURS) else 2
    if file.startswith(("<", OF_PYTHON)):
        return 0
    return 1 if file.startswith(OURS) else 3
