"""Codon: fill in what is missing from what a person answered, in the file CORRECTIONS."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import say
from table import COLUMNS, Row, read_table, write_table


def corrections() -> list[Row]:
    """Return what was answered: lines of state, column, value."""
    path = Path(os.environ["CORRECTIONS"])
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Fill gaps, and overwrite nothing."""
    rows = read_table()
    say.begin(len(rows))
    filled = 0
    for told in corrections():
        for row in rows:
            if row["state"] == told["state"] and not row[told["column"]]:
                row[told["column"]] = told["value"]
                filled += 1
    write_table(rows)
    left = [f"{row['state']}: {column}" for row in rows for column in COLUMNS if not row[column]]
    missing = f"still missing: {', '.join(left)}" if left else "nothing is missing"
    say.end(len(rows), len(rows), f"gaps filled: {filled}; {missing}")


if __name__ == "__main__":
    main()
