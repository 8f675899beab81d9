"""Sentinel: compares the rows that came into a codon with those that went out."""

from __future__ import annotations

import json
import re
import sys

CALL_MICRO = 100


def main() -> None:
    """Read the events, report the cost, and print a remark."""
    call = json.load(sys.stdin)
    messages = [event["data"]["message"] for event in call["events"]]
    counts = [int(found[0]) for text in messages if (found := re.match(r"\d+", text))]
    print(json.dumps({"type": "usage", "cost_micro": CALL_MICRO}))
    lost = counts[0] - counts[-1]
    print(f"{lost} of {counts[0]} rows are gone" if lost else f"all {counts[0]} rows are there")


if __name__ == "__main__":
    main()
