"""Where in the user's file something of a workflow is written, and the error that names the place.

An error of a definition always names the line that its author can change.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from interlock.workers.engine.system import SystemsError

_OURS = Path(__file__).parent


class WorkflowError(SystemsError):
    """The definition of a workflow is wrong. The message names file and line, and what to do."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"

    def error(self, problem: str) -> WorkflowError:
        """Return the error of what is written here."""
        return WorkflowError(f"{problem} ({self})")


def place_of(function: Callable[..., Any]) -> SourceLine:
    """Return where a function, or what is inside of its decorators, is written."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    return SourceLine(code.co_filename, code.co_firstlineno) if code else here()


def here() -> SourceLine:
    """Return the line outside of this package that called into it."""
    frame = _caller()
    return SourceLine(frame.f_code.co_filename, frame.f_lineno)


def names_here() -> Mapping[str, Any]:
    """Return the variables of the function that called into this package, with their values."""
    return _caller().f_locals


def _caller() -> FrameType:
    frame = sys._getframe(1)  # noqa: SLF001 - what inspect.currentframe calls; this is 100 times faster
    while frame.f_back and Path(frame.f_code.co_filename).parent == _OURS:
        frame = frame.f_back
    return frame
