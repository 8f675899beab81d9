"""Checks the table of requirements: each row names files and tests that exist.

A row is `| id | requirement | verdict | kept in | test |`, its verdict `done`, `ours: <reason>` or
`open: <what is missing>`. Paths are those of this repository.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

# The sources, by the first letter of an id, and how many lines each has.
SOURCES = {
    "B": ("Bernstein", 111),
    "L": ("Logist", 41),
    "H": ("Hankweave", 60),
    "T": ("work-buddy", 34),
    "S": ("Swarm", 25),
    "D": ("Interlock's own aims", 12),
}
VERDICTS = ("done", "ours", "open")
ROW = re.compile(r"^\| ([A-Z]\d+) \|([^|]+)\|([^|]+)\|([^|]+)\|([^|]+)\|$", re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    """One line of the table; `kept` has paths, `tests` has `path::name`, both perhaps empty."""

    id: str
    verdict: str
    reason: str
    kept: list[str]
    tests: list[str]


def rows(page: Path) -> list[Row]:
    """Return the rows of a page in their order; lines of any other form are left out."""
    found = []
    for key, _, cell, kept, tests in ROW.findall(page.read_text("utf-8")):
        verdict, _, reason = cell.strip().partition(": ")
        found.append(Row(key, verdict, reason, QUOTED.findall(kept), QUOTED.findall(tests)))
    return found


def counts(page: Path) -> str:
    """Return a table of how many lines of each source have which verdict."""
    lines = [f"| source | {' | '.join(VERDICTS)} |", f"|---|{'---|' * len(VERDICTS)}"]
    found = Counter((row.id[0], row.verdict) for row in rows(page))
    for letter, (name, _) in SOURCES.items():
        numbers = " | ".join(str(found[letter, verdict]) for verdict in VERDICTS)
        lines.append(f"| {name} | {numbers} |")
    return "\n".join(lines)


def faults(page: Path, root: Path) -> Iterator[str]:
    """Yield a sentence for each id that is missing, unknown or there twice, and each wrong row."""
    listed = Counter(row.id for row in rows(page))
    expected = {
        f"{letter}{number:02}"
        for letter, (_, lines) in SOURCES.items()
        for number in range(1, lines + 1)
    }
    yield from (f"{key} has no row" for key in sorted(expected - set(listed)))
    yield from (f"{key} is no id of a source" for key in sorted(set(listed) - expected))
    yield from (f"{key} has {times} rows" for key, times in listed.items() if times > 1)
    for row in rows(page):
        yield from (f"{row.id}: {fault}" for fault in _faults_of(row, root))


def _faults_of(row: Row, root: Path) -> Iterator[str]:
    if row.verdict not in VERDICTS:
        yield f"its verdict is {row.verdict!r} and not one of {', '.join(VERDICTS)}"
    elif (row.verdict == "done") is bool(row.reason):
        yield "`ours` and `open` need a reason, and `done` has none"
    if row.verdict != "open" and not (row.kept and row.tests):
        yield "it names no file, or no test"
    for path in row.kept:
        if not (root / path).exists():
            yield f"there is no file {path}"
    for test in row.tests:
        path, _, name = test.partition("::")
        if name.partition("[")[0] not in _tests_in(root / path):
            yield f"there is no test {test} that `make test` runs"


@cache
def _tests_in(path: Path) -> frozenset[str]:
    """Return the names of the test functions of a file, without those of `make proof`."""
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text("utf-8"))
    # A mark that is an argument of a parameter set concerns this set only.
    marks = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    if any("pytest.mark.proof" in ast.unparse(value) for value in marks):
        return frozenset()
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not any(ast.unparse(mark) == "pytest.mark.proof" for mark in node.decorator_list)
    )
