"""Reads a line that holds one JSON object."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from interlock.workers.text import one_line

DEPTH_MAX = 8
NAME_LENGTH_MAX = 200
TEXT_LENGTH_MAX = 16_000
COUNT_MAX = 2**53 - 1
_SHOWN_LENGTH_MAX = 60
_ELLIPSIS = "..."


class LineError(Exception):
    """The line cannot be read. The message is one sentence for the author of the agent."""


def read_object(line: bytes, *, bytes_max: int) -> dict[str, Any]:
    """Read a line that holds one JSON object. Raises LineError."""
    line = line.rstrip(b"\r\n")
    if not line.strip():
        raise LineError("the line is empty")
    if len(line) > bytes_max:
        raise LineError(f"the line has {len(line)} bytes, at most {bytes_max} are allowed")
    try:
        value = json.loads(
            line.decode(),
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=_unique,
        )
    except UnicodeDecodeError as error:
        raise LineError(f"the line is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise LineError(f"the line is not JSON: {error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise LineError("the line is nested too deep") from error
    except ValueError as error:
        raise LineError("the line has a number of too many digits") from error
    if not isinstance(value, dict):
        raise LineError(f"the line is not a JSON object, it is {shown(value)}")
    return value


def shown(value: object) -> str:
    """Return any value as a short quotation that can be written to a log."""
    return one_line(repr(value), length_max=_SHOWN_LENGTH_MAX)


def check_plain(message: dict[str, Any]) -> None:
    """Refuse a message that cannot be stored: too deep, or with lone surrogates or NUL."""
    waiting: list[tuple[object, int]] = [(message, 1)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, dict | list):
            if depth > DEPTH_MAX:
                raise LineError(f"the line is nested deeper than {DEPTH_MAX} levels")
            inner = [*value, *value.values()] if isinstance(value, dict) else value
            waiting += [(item, depth + 1) for item in inner]
        elif isinstance(value, str):
            _check_text(value)


def plain_text(text: str, *, length_max: int = TEXT_LENGTH_MAX) -> str:
    """Return a text that can be stored: cut, without NUL and without lone surrogates."""
    cut = text if len(text) <= length_max else text[: length_max - len(_ELLIPSIS)] + _ELLIPSIS
    return cut.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def _check_text(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise LineError(f"the text {shown(value)} has a lone surrogate") from error
    if "\0" in value:
        raise LineError(f"the text {shown(value)} has a NUL character")


def _no_constant(constant: str) -> float:
    raise LineError(f"the line has {constant}, which is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise LineError(f"the number {shown(digits)} is too large")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise LineError(f"the field {shown(key)} is there twice")
        found[key] = value
    return found
