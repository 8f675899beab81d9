"""Says what went wrong in code that is not Interlock's, and in which line of whose file."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:  # the help does without it
    from pydantic import ValidationError

OURS = f"{Path(__file__).parents[1]}/"
OF_PYTHON = f"{sysconfig.get_path('stdlib')}/"
OWN, INSTALLED, INTERLOCK, PYTHON = 3, 2, 1, 0  # how near a file is to who reads of it


class PlacedError(ValueError):
    """An error whose sentence names file and line itself."""


def blamed(failure: BaseException, *, otherwise: str | None = None) -> str:
    """Return an error as a sentence, with the last line of a person's own file on the way to it.

    If no such file is on the way, `otherwise` is the place, by default the last line of any file.
    """
    if isinstance(failure, PlacedError):
        return str(failure)
    kind = type(failure).__name__
    if isinstance(failure, SyntaxError) and failure.filename:
        return f"{kind}: {failure.msg} ({failure.filename}, line {failure.lineno})"
    text = f"{kind}: {_said(failure)}"
    nearness, place = _place_in(failure)
    if otherwise is not None and nearness < INSTALLED:
        place = otherwise
    return f"{text} ({place})" if place else text


def with_own_line(failure: BaseException, *, named: bool = True) -> str:
    """Return an error with all its lines, the first with the last line of a person's own file.

    It begins with its kind, unless `named` is false: its text is a whole sentence then.
    """
    if isinstance(failure, PlacedError):
        return str(failure)
    nearness, place = _place_in(failure)
    said = _said(failure) if _is_of_a_model(failure) else str(failure)
    kind = f"{type(failure).__name__}: " if named else ""
    first, end, rest = f"{kind}{said}".partition("\n")
    return f"{first} ({place}){end}{rest}" if nearness == OWN else f"{first}{end}{rest}"


def _place_in(failure: BaseException) -> tuple[int, str]:
    """Return the last line of the nearest file on the way to an error, and how near that is."""
    return _nearest(traceback.extract_tb(failure.__traceback__))


def place_of_thread(thread: int) -> str:
    """Return where a thread is at work in code that is not Interlock's, or ''."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - it is documented
    nearness, place = _nearest(traceback.extract_stack(frame) if frame else [])
    return place if nearness >= INSTALLED else ""


def _nearest(frames: list[traceback.FrameSummary]) -> tuple[int, str]:
    if not frames:
        return PYTHON, ""
    frame = max(reversed(frames), key=lambda frame: _nearness(frame.filename))
    return _nearness(frame.filename), f"{frame.filename}, line {frame.lineno}"


def _is_of_a_model(failure: BaseException) -> TypeGuard[ValidationError]:
    """Whether an error says what does not fit a model."""
    from pydantic import ValidationError  # noqa: PLC0415 - the help does without it

    return isinstance(failure, ValidationError)


def _said(failure: BaseException) -> str:
    """Return what an error says, in one line."""
    if not _is_of_a_model(failure):
        return " ".join(str(failure).split())
    errors = failure.errors(include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in errors)


def is_own(file: str) -> bool:
    """Whether a file is of who uses Interlock, and neither Interlock's, installed, nor Python's."""
    return _nearness(file) == OWN


def _nearness(file: str) -> int:
    """Return whose a file is: OWN, INSTALLED, INTERLOCK, or PYTHON."""
    if {"site-packages", "dist-packages"} & set(Path(file).parts):
        return INTERLOCK if file.startswith(OURS) else INSTALLED
    if file.startswith(("<", OF_PYTHON)):
        return PYTHON
    return INTERLOCK if file.startswith(OURS) else OWN
