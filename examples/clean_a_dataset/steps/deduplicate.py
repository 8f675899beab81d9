"""Codon: make one row of those that are about one state; what one lacks the other may have."""

from __future__ import annotations

import sys

import say
from table import COLUMNS, Row, read_table, write_table


def main() -> None:
    """Merge the rows of each state."""
    rows = read_table()
    say.begin(len(rows))
    found: dict[str, Row] = {}
    filled = 0
    for row in rows:
        kept = found.setdefault(row["state"], dict.fromkeys(COLUMNS, ""))
        known = any(kept.values())
        for column, value in row.items():
            if value and kept[column] and value != kept[column]:
                sys.exit(f"{row['state']}: {column} is {kept[column]!r} and {value!r}")
            filled += bool(known and bool(value) != bool(kept[column]))
            kept[column] = kept[column] or value
    merged = [found[state] for state in sorted(found)]
    write_table(merged)
    gone = len(rows) - len(merged)
    say.end(len(merged), len(rows), f"{gone} rows merged, {filled} gaps filled from a copy")


if __name__ == "__main__":
    main()
