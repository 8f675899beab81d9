"""Reads and writes single values of files: times, money, paths, numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import GetCoreSchemaHandler, ValidationError, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from interlock.kernel.errors import InvalidIdError
from interlock.kernel.record import PRIORITY_LAST, record_id

_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
# All digits fit into a Decimal of the default precision: nothing is rounded.
_MONEY = re.compile(r"\d{1,12}(?:\.\d{0,12})?(?:[eE][-+]?\d{1,2})?", re.ASCII)
_MICRO_DIGITS = 6


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class ValueKind:
    """The reader and the writer of one kind of value in a file; it marks a field of a model.

    `read` raises ValueError with advice on what to write instead. It must be the last mark of a
    type: what a person wrote is converted before anything is checked. DURATION reads `90s` or `3d`
    as whole seconds, MONEY `2.50` as millionths of a dollar, both integers.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = _same

    @classmethod
    def filled_list(cls, noun: str) -> ValueKind:
        """Return the kind of a list that has an entry, each of which is such a noun."""

        def read(value: Any) -> Any:
            if value == []:
                raise ValueError(f"it is empty; write at least one {noun}")
            return value

        return cls(read)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema that reads a value of a file, and a stored value as it is."""
        return core_schema.with_info_wrap_validator_function(self._read, handler(source))

    def _read(self, value: Any, check: Any, info: ValidationInfo) -> Any:
        if info.context is None:
            return check(value)
        found = self.read(value)
        try:
            return check(found)
        except ValidationError as refusal:
            fault = refusal.errors(include_url=False)[0]
            for bound, direction in (("ge", "more"), ("le", "less")):
                # A fault of a part has the limits of that part.
                if not fault["loc"] and bound in fault.get("ctx", {}):
                    problem = f"write {self.write(fault['ctx'][bound])} or {direction}"
                    raise ValueError(problem) from refusal
            raise


class Dollars(str):
    """An amount of US dollars as it is written: a number with exactly these digits."""

    __slots__ = ()


def duration_text(seconds: int) -> str:
    """Return a duration as people write it: 5400 is 1h30m."""
    written = ""
    for unit, length in _UNITS.items():
        count, seconds = divmod(seconds, length)
        written += f"{count}{unit}" if count else ""
    return written or "0s"


def money_text(micro: int) -> Dollars:
    """Return micro-dollars as dollars, exactly."""
    whole, rest = divmod(micro, 10**_MICRO_DIGITS)
    return Dollars(f"{whole}.{rest:06}".rstrip("0").removesuffix("."))


def _duration(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not value or not found:
        raise ValueError("write whole seconds, or a time like 90s, 10m, 2h, 1h30m or 3d")
    counts = zip(found.groups(default="0"), _UNITS.values(), strict=True)
    return sum(int(count) * length for count, length in counts)


def _money(value: Any) -> int:
    text = str(value) if isinstance(value, str | int | float) else ""
    if _MONEY.fullmatch(text):
        micro = Decimal(text).scaleb(_MICRO_DIGITS)
        if micro == micro.to_integral_value():
            return int(micro)
    raise ValueError("write US dollars like 5 or 0.05, with at most 6 decimals")


def _path(path: Any) -> Any:
    if isinstance(path, str) and path.startswith("~"):
        raise ValueError("write the whole path; only a shell replaces ~")
    if isinstance(path, str) and "\0" in path:
        raise ValueError("no path has a NUL character; take it out")
    return path


def _priority(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= PRIORITY_LAST:
        raise ValueError(f"write 0 (first) to {PRIORITY_LAST} (last)")
    return int(value)


def _id(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it is not text; put it in quotation marks")  # noqa: TRY004 - not a bug
    try:
        return record_id(value)
    except InvalidIdError as error:
        raise ValueError(str(error)) from error


DURATION = ValueKind(_duration, duration_text)
ID = ValueKind(_id)
MONEY = ValueKind(_money, money_text)
PATH = ValueKind(_path)
PRIORITY = ValueKind(_priority)
