"""The rules of this project that no linter has: sizes, layout, and what no file may name."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = ("interlock", "bench", "examples", "scripts", "tests")
MODULE_LINES_MAX = 400
TEST_LINES_MAX = 600  # a page of tests is read one test at a time
FUNCTION_LINES_MAX = 70
SCRIPTS = ROOT / "interlock" / "kernel" / "store" / "lua"
SCRIPT_LINES_MAX = 120
SCRIPT_COLUMNS_MAX = 100
CONTRACT = ("KEYS", "ARGV", "Returns")
# A block of Lua opens and ends at the ends of lines, and no line has a second statement.
CROWDED = re.compile(r";|\b(?:then|do|else|repeat)\b\s*\S|\S.*\bend\b|\bfunction\b[^)]*\)\s*\S")
LUA_TEXT = re.compile(r"'[^']*'|--.*")
SKIPPED = {".git", ".venv", ".lock-venv", ".peers-venv", ".interlock", "__pycache__"}
SKIPPED |= {".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".import_linter_cache"}
SKIPPED |= {"interlock.egg-info"}
TEXTS = {".py", ".md", ".toml", ".yml", ".yaml", ".lua", ".lock", ".conf", ".acl", ".txt", ""}


def modules() -> list[Path]:
    found = [path for name in CODE for path in sorted((ROOT / name).rglob("*.py"))]
    return [path for path in found if not SKIPPED & set(path.parts)]


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def faults_of_module(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    lines_max = TEST_LINES_MAX if "tests" in path.parts else MODULE_LINES_MAX
    if (lines := len(text.splitlines())) > lines_max:
        yield f"it has {lines} lines"
    # A test's name is its sentence.
    if not ast.get_docstring(tree) and "tests" not in path.parts:
        yield "a module opens with one sentence"
    for node in statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name} has {lines} lines"


def statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield statements and all inside of them, but not their expressions, which are most nodes."""
    for node in body:
        yield node
        for block in ("body", "handlers", "cases", "orelse", "finalbody"):
            yield from statements(getattr(node, block, ()))


def faults_of_script(path: Path) -> Iterator[str]:
    lines = path.read_text("utf-8").splitlines()
    if len(lines) > SCRIPT_LINES_MAX:
        yield f"it has {len(lines)} lines"
    for line in lines:
        if len(line) > SCRIPT_COLUMNS_MAX:
            yield f"too long: {line}"
        if CROWDED.search(LUA_TEXT.sub("", line)):
            yield f"two statements: {line}"
        # Positions are named once, at the top; nothing counts on from one.
        if re.search(r"(?:KEYS|ARGV)\[[^\]]*[-+*#][^\]]*\]", line):
            yield f"counts on from a position: {line}"
    head = [line for line in lines if not line.startswith("--@use")]
    comment = head[: next(n for n, line in enumerate(head) if not line.startswith("--"))]
    if not comment or comment[0].startswith("-- KEYS"):
        yield "a sentence says what it does"
    named = [word for line in comment if (word := line.split()[1]) in CONTRACT]
    if path.parent == SCRIPTS and named != list(CONTRACT):
        yield f"its contract names {', '.join(CONTRACT)}"


def test_every_module_says_what_it_is_and_stays_readable() -> None:
    faults = [f"{shown(path)}: {fault}" for path in modules() for fault in faults_of_module(path)]

    assert not faults


def test_every_script_opens_with_its_contract_and_stays_readable() -> None:
    scripts = sorted(SCRIPTS.rglob("*.lua"))
    faults = [f"{shown(path)}: {fault}" for path in scripts for fault in faults_of_script(path)]

    assert scripts
    assert not faults


def written() -> Iterator[Path]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = set(folders) - SKIPPED
        paths = (Path(folder) / name for name in sorted(set(files) - SKIPPED))
        yield from (path for path in paths if path.suffix in TEXTS)


def test_no_file_names_an_index_a_machine_or_a_loose_end() -> None:
    places = re.compile(r"--(?:extra-)?index-url|/simple/|find-links|(?:^|[\s\"'=])/(?:work|root)/")
    loose = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
    faults: list[str] = []
    for path in written():
        if path == Path(__file__):
            continue
        text = path.read_text("utf-8", "replace")
        found = places.search(text) or loose.search(text)
        faults += [f"{shown(path)}: {found.group()}"] if found else []

    assert not faults
