"""Codon: count the faults of the table, and repair none."""

from __future__ import annotations

import json
from pathlib import Path

import reports
from faults import counted, trimmed
from table import COLUMNS, read_table


def main() -> None:
    """Write data/profile.json."""
    rows = read_table()
    reports.begin(len(rows))
    missing = sum(not trimmed(row[column]) for row in rows for column in COLUMNS)
    found = {"rows": len(rows), "missing": missing, **counted(rows)}
    Path("data/profile.json").write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    summary = ", ".join(f"{number} {name}" for name, number in found.items())
    reports.end(len(rows), len(rows), summary)


if __name__ == "__main__":
    main()
