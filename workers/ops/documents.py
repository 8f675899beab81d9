"""Writes the tables of all machines into kernel/README.md.

`python -m interlock.workers.ops.documents` rewrites the page; with `--check` it only compares.
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
    """Return the sections of all machines."""
    return "\n\n".join(section(machine) for machine in MACHINES.values())


def section(machine: Machine) -> str:
    """Return the section of one machine: its diagram, its states, its rows."""
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


def updated(text: str) -> str:
    """Return the page with the tables that the code has now."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{KERNEL_README.name} has lost its markers {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{tables()}\n\n{END}{tail}"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or with --check only compare it. Return 1 if it is out of date."""
    current = KERNEL_README.read_text("utf-8")
    fresh = updated(current)
    if "--check" not in arguments:
        KERNEL_README.write_text(fresh, "utf-8")
        return 0
    if current != fresh:
        sys.stderr.write(
            "kernel/README.md does not match the tables; "
            "run: python -m interlock.workers.ops.documents\n"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
