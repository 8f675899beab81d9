"""Keeps the documents in step with the tables.

`python -m interlock.workers.ops.documents` rewrites them; with `--check` it only compares.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from interlock.kernel.diagram import mermaid, rows_table, states_table
from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES

ROOT = Path(__file__).absolute().parents[3]
KERNEL_README = ROOT / "kernel" / "README.md"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def tables() -> str:
    """Return every machine, drawn from its table."""
    return "\n\n".join(section(machine) for machine in MACHINES.values())


def section(machine: Machine) -> str:
    """Return one machine: its diagram, its states, its rows."""
    ours = sum(bool(row.ours) for row in machine.transitions)
    return "\n\n".join(
        (
            f"## {machine.name}",
            f"{len(machine.stages)} states, {len(machine.transitions)} rows, {ours} of them ours.",
            f"```mermaid\n{mermaid(machine)}\n```",
            states_table(machine),
            rows_table(machine),
        )
    )


def renewed(text: str) -> str:
    """Return a document with its tables as they are in the code."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{KERNEL_README.name} has lost its marks {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{tables()}\n\n{END}{tail}"


def main(arguments: Sequence[str]) -> int:
    """Write the documents, or with --check only compare; 1 if they are stale."""
    kept = KERNEL_README.read_text("utf-8")
    fresh = renewed(kept)
    if "--check" not in arguments:
        KERNEL_README.write_text(fresh, "utf-8")
        return 0
    if kept != fresh:
        sys.stderr.write(
            "kernel/README.md is not what the tables say; "
            "run: python -m interlock.workers.ops.documents\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
