"""Codon of a loop: each iteration repairs one class of faults, and counts the faults left."""

from __future__ import annotations

import os

import reports
from faults import FAULTS, counted
from table import read_table, write_table


def main() -> None:
    """Repair the class with this iteration's number."""
    rows = read_table()
    reports.begin(len(rows))
    fault = FAULTS[int(os.environ["INTERLOCK_ITERATION"])]
    repaired = fault.repair(rows)
    write_table(rows)
    left = sum(counted(rows).values())
    reports.end(
        len(rows), len(rows), f"{fault.name}: {repaired} cells repaired, {left} faults are left"
    )


if __name__ == "__main__":
    main()
