"""Sentinel: reads how many rows came into a codon and went out, and remarks on the rest."""

from __future__ import annotations

import json
import re
import sys

CALL_MICRO = 100


def main() -> None:
    """Read what happened, and say what to think of it."""
    given = json.load(sys.stdin)
    said = [event["data"]["message"] for event in given["events"]]
    counts = [int(found[0]) for text in said if (found := re.match(r"\d+", text))]
    print(json.dumps({"type": "usage", "cost_micro": CALL_MICRO}))
    lost = counts[0] - counts[-1]
    print(f"{lost} of {counts[0]} rows are gone" if lost else f"all {counts[0]} rows are there")


if __name__ == "__main__":
    main()
