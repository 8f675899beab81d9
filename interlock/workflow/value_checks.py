"""What the import refuses of a name, and of a length of time."""

from __future__ import annotations

import re
from datetime import timedelta

from interlock.workflow.place import SourceLine

_NAME = re.compile(r"[a-z][a-z0-9_]*")
LENGTH_MAX = timedelta(days=3650)


def check_name(place: SourceLine, kind: str, name: object) -> None:
    """Refuse a name that is none. Raises WorkflowError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise place.error(f"{name!r} is no name of a {kind}: use small letters, digits and _")


def check_length(place: SourceLine, what: str, length: object) -> None:
    """Refuse what is no length of time. Raises WorkflowError."""
    if not isinstance(length, timedelta):
        is_number = isinstance(length, int | float) and not isinstance(length, bool)
        cure = f"seconds({length}), or minutes, hours, days" if is_number else "days(3)"
        raise place.error(f"{what}={length!r} is no length of time: write {what}={cure}")
    if not timedelta(0) < length <= LENGTH_MAX:
        raise place.error(f"{what} is {length}: give more than nothing, and at most ten years")
