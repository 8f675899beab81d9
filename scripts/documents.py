"""Keeps the documents in step with the tables, the import contracts and the tests.

`python -m scripts.documents` rewrites the pages; with `--check` it only compares, and
names each row of the table of requirements that leads to nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from interlock.kernel.diagram import mermaid, rows_table, states_table
from interlock.kernel.machine import Machine
from interlock.kernel.machines import LISTED
from interlock.systems import NAMES
from interlock.systems.runs.machines.published_names import names_list
from interlock.workers.engine.own_systems import add_systems
from interlock.workers.inherited import REMOVED
from scripts import requirements
from scripts.bands import bands

ROOT = Path(__file__).absolute().parent.parent
KERNEL_README = ROOT / "interlock" / "kernel" / "README.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
REQUIREMENTS = ROOT / "scripts" / "requirements.md"
RUNS = ROOT / "docs" / "runs.md"
CONFIGURATION = ROOT / "docs" / "configuration.md"
BEGIN, END = "<!-- drawn: begin -->", "<!-- drawn: end -->"


def tables() -> str:
    """Return the sections of all machines but that of canaries, whose table is a thread's."""
    return "\n\n".join(section(machine) for machine in LISTED.values())


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


def removed() -> str:
    """Return the names of the variables that work does not inherit."""
    return ", ".join(f"`{name}`" for name in REMOVED)


# For each document, the function that draws the part between its markers.
DRAWN: Mapping[Path, Callable[[], str]] = {
    KERNEL_README: tables,
    ARCHITECTURE: partial(bands, ROOT / "pyproject.toml"),
    REQUIREMENTS: partial(requirements.counts, REQUIREMENTS),
    RUNS: names_list,
    CONFIGURATION: removed,
}


def renewed(document: Path, draw: Callable[[], str]) -> str:
    """Return the text of a document with its drawn part made anew. Raises ValueError."""
    head, begin, rest = document.read_text("utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{document.name} does not have the markers {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{draw()}\n\n{END}{tail}"


def main(arguments: Sequence[str]) -> int:
    """Write the documents, or with --check only compare. Return 1 if something is wrong."""
    add_systems(NAMES, ROOT)
    fresh = {document: renewed(document, draw) for document, draw in DRAWN.items()}
    stale = [document for document in fresh if document.read_text("utf-8") != fresh[document]]
    if "--check" not in arguments:
        for document in stale:
            document.write_text(fresh[document], "utf-8")
        return 0
    for document in stale:
        sys.stderr.write(f"{document} is out of date; run: python -m scripts.documents\n")
    faults = list(requirements.faults(REQUIREMENTS, ROOT))
    for fault in faults:
        sys.stderr.write(f"{REQUIREMENTS}: {fault}\n")
    return 1 if stale or faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
