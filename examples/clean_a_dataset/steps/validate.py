"""Codon: refuse the table unless it is complete and correct; print only problems."""

from __future__ import annotations

import re
import sys

from table import COLUMNS, Row, read_table

STATES = 50
FIRST, LAST = "1787-12-07", "1959-08-21"
FORMS = {"code": r"[A-Z]{2}", "admitted": r"\d{4}-\d\d-\d\d", "area_sq_mi": r"[1-9]\d*"}


def problems_of(row: Row) -> list[str]:
    """Return the problems of one row."""
    state = row["state"]
    gaps = [f"{state} has no {column}" for column in COLUMNS if not row[column]]
    forms = [
        f"{state}: {column} is {row[column]!r}"
        for column, form in FORMS.items()
        if row[column] and not re.fullmatch(form, row[column])
    ]
    if row["admitted"] and not FIRST <= row["admitted"] <= LAST:
        forms.append(f"{state} was not admitted on {row['admitted']}")
    return gaps + forms


def main() -> None:
    """Exit with 1 if there is a problem."""
    rows = read_table()
    found = [problem for row in rows for problem in problems_of(row)]
    if len(rows) != STATES:
        found.append(f"there are {len(rows)} rows, not {STATES}")
    for column in ("state", "code", "capital"):
        values = [row[column] for row in rows if row[column]]
        if len(set(values)) != len(values):
            found.append(f"a {column} is there more than once")
    if found:
        sys.exit("; ".join(found))
    print(f"{len(rows)} rows, no problems")


if __name__ == "__main__":
    main()
