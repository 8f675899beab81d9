"""Codon: fill gaps with the answers of a person, from the file CORRECTIONS."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import reports
from table import COLUMNS, Row, read_table, write_table


def corrections() -> list[Row]:
    """Return the answers: lines of state, column, value."""
    path = Path(os.environ["CORRECTIONS"])
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Fill gaps, and overwrite no value."""
    rows = read_table()
    reports.begin(len(rows))
    filled = 0
    for correction in corrections():
        for row in rows:
            if row["state"] == correction["state"] and not row[correction["column"]]:
                row[correction["column"]] = correction["value"]
                filled += 1
    write_table(rows)
    left = [f"{row['state']}: {column}" for row in rows for column in COLUMNS if not row[column]]
    missing = f"still missing: {', '.join(left)}" if left else "nothing is missing"
    reports.end(len(rows), len(rows), f"gaps filled: {filled}; {missing}")


if __name__ == "__main__":
    main()
