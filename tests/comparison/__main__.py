"""Runs the programs of docs/workflows.md under SIGKILL, beside peers: `python -m tests.comparison`.

What the other side counted is printed as a table. Each promise of Interlock that was broken is
printed too, and is an error; of the peers the figures are only shown. Names of rounds choose some;
`--write-docs` writes the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial

from rich.console import Console
from rich.table import Table

from bench.figures import computer, write_between
from bench.peers.environment import MissingError
from tests.comparison import refund_round
from tests.comparison.agent_round import agent
from tests.comparison.pipeline_round import pipeline
from tests.comparison.rounds import Round

MARK = "kills"  # of the part of docs/benchmarks.md
ROUNDS: Mapping[str, Callable[[], Round]] = {
    "refund": refund_round.interlock,
    "refund-dbos": refund_round.dbos,
    "refund-celery": refund_round.celery,
    "pipeline": partial(pipeline, once=False),
    "pipeline-once": partial(pipeline, once=True),
    "agent": agent,
}


def main() -> int:
    """Run the rounds, show what they found, and return 1 if Interlock broke a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.comparison", description=__doc__)
    parser.add_argument("rounds", nargs="*", metavar="round", help=", ".join(ROUNDS))
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.rounds if name not in ROUNDS]:
        parser.error(f"no round {', '.join(unknown)}; there are {', '.join(ROUNDS)}")
    found, skipped = [], []
    for name in arguments.rounds or ROUNDS:
        print(f"running {name} ...", flush=True)
        try:
            found.append(ROUNDS[name]())
        except MissingError as missing:
            skipped.append(f"skipped: {name}, because {missing}")
    show(found)
    print("\n".join(skipped))
    broken = [
        f"BROKEN by {one.product}, {one.program}: {what}" for one in found for what in one.broken
    ]
    print("\n".join(broken))
    if arguments.write_docs and not (broken or skipped):
        write_docs(found)
    return 1 if broken else 0


def show(found: list[Round]) -> None:
    """Print the table."""
    table = Table("program", "product", "what the other side counted", title="Under SIGKILL")
    for one in found:
        table.add_row(one.program, one.product, one.figures)
    Console().print(table)


def write_docs(found: list[Round]) -> None:
    """Write the table into docs/benchmarks.md."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    lines = [
        "| program | product | what the other side counted |",
        "|---|---|---|",
        *(f"| `{one.program}` | {one.product} | {one.figures} |" for one in found),
        "",
        f"From one run on {day}, {computer()}.",
    ]
    write_between(MARK, lines)


if __name__ == "__main__":
    sys.exit(main())
