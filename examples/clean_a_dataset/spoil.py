"""Spoils states.csv in a reproducible way: `python -m examples.clean_a_dataset.spoil`.

The result has these faults, and no others:

- 8 rows are there twice, written in different ways;
- 14 names have stray spaces, some of them no-break spaces;
- 9 codes are in small letters;
- 20 areas are in km2 and others have commas, though the column says square miles;
- dates are written in four ways (a numeric one has the month first);
- 3 capitals are missing, but their row's copy has them; South Dakota's is missing in every row.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from random import Random

SEED = 1787
TWICE, BLANKS, SMALL, METRIC, HALF_MISSING = 8, 14, 9, 20, 3
MISSING_STATE, MISSING_COLUMN = "South Dakota", "capital"
KM2_IN_SQUARE_MILE = 2.589988110336
DATES: tuple[Callable[[date], str], ...] = (
    lambda day: day.isoformat(),
    lambda day: f"{day:%B} {day.day}, {day.year}",
    lambda day: f"{day.day} {day:%b} {day.year}",
    lambda day: f"{day:%m/%d}/{day.year}",
)
SPACES: tuple[Callable[[str], str], ...] = (
    lambda text: f"  {text}",
    lambda text: f"{text} \t",
    lambda text: text.replace(" ", "  ") + " ",
    lambda text: "\N{NO-BREAK SPACE}" + text,
)
Row = dict[str, str]


def spoilt(true: str) -> str:
    """Return a spoilt table made from the true one, both as CSV."""
    random = Random(SEED)  # noqa: S311 - a reproducible table needs no secret
    rows = list(csv.DictReader(io.StringIO(true)))
    others = [row for row in rows if row["state"] != MISSING_STATE]
    copies = [dict(row) for row in random.sample(others, TWICE)]
    for copy in copies[:HALF_MISSING]:
        copy["capital"] = random.choice(("", "n/a", "?"))
    (missing,) = (row for row in rows if row["state"] == MISSING_STATE)
    missing[MISSING_COLUMN] = "n/a"
    table = [*rows, *copies]
    random.shuffle(table)
    spoil(table, random)
    made = io.StringIO()
    writer = csv.DictWriter(made, fieldnames=list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return made.getvalue()


def spoil(table: list[Row], random: Random) -> None:
    """Write cells in other forms."""
    for row in random.sample(table, BLANKS):
        column = random.choice(("state", "capital"))
        row[column] = random.choice(SPACES)(row[column])
    for row in random.sample(table, SMALL):
        row["code"] = row["code"].lower()
    metric = {id(row) for row in random.sample(table, METRIC)}
    for row in table:
        area = int(row["area_sq_mi"])
        if id(row) in metric:
            row["area_sq_mi"] = f"{round(area * KM2_IN_SQUARE_MILE):,} km2"
        elif random.random() < 1 / 2:
            row["area_sq_mi"] = f"{area:,}"
        row["admitted"] = random.choice(DATES)(date.fromisoformat(row["admitted"]))


if __name__ == "__main__":
    sys.stdout.write(spoilt((Path(__file__).parent / "states.csv").read_text("utf-8")))
