"""Codon of a loop: each iteration mends one class of faults, and counts what is left."""

from __future__ import annotations

import os

import say
from faults import FAULTS, counted
from table import read_table, write_table


def main() -> None:
    """Mend the class that has this iteration's number."""
    rows = read_table()
    say.begin(len(rows))
    fault = FAULTS[int(os.environ["INTERLOCK_ITERATION"])]
    mended = fault.mend(rows)
    write_table(rows)
    left = sum(counted(rows).values())
    say.end(len(rows), len(rows), f"{fault.name}: {mended} cells mended, {left} faults are left")


if __name__ == "__main__":
    main()
