"""Codon: merge the rows of each state into one; a gap in one row is filled from the other."""

from __future__ import annotations

import sys

import reports
from table import COLUMNS, Row, read_table, write_table


def main() -> None:
    """Merge the rows of each state."""
    rows = read_table()
    reports.begin(len(rows))
    found: dict[str, Row] = {}
    filled = 0
    for row in rows:
        merged_row = found.setdefault(row["state"], dict.fromkeys(COLUMNS, ""))
        is_copy = any(merged_row.values())
        for column, value in row.items():
            if value and merged_row[column] and value != merged_row[column]:
                sys.exit(f"{row['state']}: {column} is {merged_row[column]!r} and {value!r}")
            filled += bool(is_copy and bool(value) != bool(merged_row[column]))
            merged_row[column] = merged_row[column] or value
    merged = [found[state] for state in sorted(found)]
    write_table(merged)
    gone = len(rows) - len(merged)
    reports.end(len(merged), len(rows), f"{gone} rows merged, {filled} gaps filled from a copy")


if __name__ == "__main__":
    main()
