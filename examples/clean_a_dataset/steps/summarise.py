"""Codon: write figures about the table to data/summary.json."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from table import read_table


def main() -> None:
    """Write the figures."""
    rows = sorted(read_table(), key=lambda row: int(row["area_sq_mi"]))
    centuries = Counter(f"{row['admitted'][:2]}00s" for row in rows)
    by_date = sorted(rows, key=lambda row: row["admitted"])
    figures = {
        "states": len(rows),
        "area_sq_mi": sum(int(row["area_sq_mi"]) for row in rows),
        "largest": [row["state"] for row in reversed(rows[-3:])],
        "smallest": [row["state"] for row in rows[:3]],
        "first": by_date[0]["state"],
        "last": by_date[-1]["state"],
        "admitted": dict(sorted(centuries.items())),
    }
    Path("data/summary.json").write_text(json.dumps(figures, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
