"""The classes of faults that cells have, in the order in which they are repaired."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from table import COLUMNS, Row

KM2_IN_SQUARE_MILE = 2.589988110336
MISSING = ("n/a", "?")
DATES = ("%Y-%m-%d", "%B %d, %Y", "%d %b %Y", "%m/%d/%Y")


@dataclass(frozen=True, slots=True)
class Fault:
    """A class of faults: its columns, and a function that repairs a cell."""

    name: str
    columns: tuple[str, ...]
    repaired: Callable[[str], str]

    def repair(self, rows: list[Row]) -> int:
        """Repair every cell that has this fault, and return how many had it."""
        count = 0
        for row in rows:
            for column in self.columns:
                written = self.repaired(row[column])
                count += written != row[column]
                row[column] = written
        return count


def trimmed(cell: str) -> str:
    """Return a cell with single spaces, or an empty one if its value is marked as missing."""
    text = " ".join(cell.split())
    return "" if text in MISSING else text


def in_square_miles(cell: str) -> str:
    """Return an area in whole square miles. Raises ValueError if the cell is no area."""
    found = re.fullmatch(r"([\d,]+)(?: (km2))?", cell)
    if found is None:
        raise ValueError(f"{cell!r} is no area in a known form")
    number, unit = found.groups()
    area = int(number.replace(",", ""))
    return str(round(area / KM2_IN_SQUARE_MILE) if unit else area)


def iso_date(cell: str) -> str:
    """Return a date in the form of ISO 8601. Raises ValueError if its form is unknown."""
    for form in DATES:
        try:
            return datetime.strptime(cell.strip(), form).replace(tzinfo=UTC).date().isoformat()
        except ValueError:
            continue
    raise ValueError(f"{cell!r} is no date in a known form")


FAULTS = (
    Fault("spaces and n/a", COLUMNS, trimmed),
    Fault("small letters", ("code",), str.upper),
    Fault("mixed units", ("area_sq_mi",), in_square_miles),
    Fault("mixed dates", ("admitted",), iso_date),
)


def counted(rows: list[Row]) -> dict[str, int]:
    """Return how many cells have each fault, without changing any."""
    return {fault.name: fault.repair([dict(row) for row in rows]) for fault in FAULTS}
