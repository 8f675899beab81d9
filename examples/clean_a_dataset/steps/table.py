"""The table that the codons work on, as rows of text."""

from __future__ import annotations

import csv
from pathlib import Path

TABLE = Path("data/table.csv")
COLUMNS = ("state", "code", "capital", "admitted", "area_sq_mi")
Row = dict[str, str]


def read_table() -> list[Row]:
    """Return the rows of the table."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_table(rows: list[Row]) -> None:
    """Replace the rows of the table."""
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
