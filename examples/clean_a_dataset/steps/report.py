"""Codon: write REPORT.md about the faults of the table and its figures."""

from __future__ import annotations

import json
from pathlib import Path

import reports
from table import read_table


def main() -> None:
    """Write the report."""
    rows = read_table()
    reports.begin(len(rows))
    was, now = (
        json.loads(Path(f"data/{name}.json").read_text()) for name in ("profile", "summary")
    )
    faults = [f"| {name} | {number} |" for name, number in was.items() if name != "rows"]
    large, small = ", ".join(now["largest"]), ", ".join(now["smallest"])
    admitted = ", ".join(f"{number} in the {when}" for when, number in now["admitted"].items())
    lines = [
        "# The states, cleaned",
        "",
        f"{was['rows']} rows came in and {now['states']} are left, one for each state.",
        "",
        "| what was wrong | cells |",
        "|---|---|",
        *faults,
        "",
        f"- Together they have {now['area_sq_mi']:,} square miles.",
        f"- The largest are {large}; the smallest {small}.",
        f"- {now['first']} was the first, {now['last']} the last; {admitted}.",
    ]
    Path("REPORT.md").write_text("\n".join(lines) + "\n", "utf-8")
    reports.end(len(rows), len(rows), "REPORT.md is written")


if __name__ == "__main__":
    main()
