"""The rules of this project that no linter has: sizes, layout, and what no file may name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE = ("kernel", "workers", "bench", "examples", "tests")
MODULE_LINES_MAX = 400
TEST_LINES_MAX = 600  # a page of tests is read one test at a time
FUNCTION_LINES_MAX = 70
SCRIPTS = ROOT / "kernel" / "store" / "lua"
SCRIPT_LINES_MAX = 120
SCRIPT_COLUMNS_MAX = 100
CONTRACT = ("KEYS", "ARGV", "Returns")
# A block of Lua opens and ends at the ends of lines, and no line has a second statement.
CROWDED = re.compile(r";|\b(?:then|do|else|repeat)\b\s*\S|\S.*\bend\b|\bfunction\b[^)]*\)\s*\S")
LUA_TEXT = re.compile(r"'[^']*'|--.*")
SKIPPED = {".git", ".venv", ".lock-venv", ".interlock", ".mypy_cache", ".ruff_cache", "__pycache__"}
SKIPPED |= {".pytest_cache", ".hypothesis", ".import_linter_cache", "interlock.egg-info"}
TEXTS = {".py", ".md", ".toml", ".yml", ".yaml", ".lua", ".lock", ".conf", ".acl", ".txt", ""}


def modules() -> list[Path]:
    found = [path for name in CODE for path in sorted((ROOT / name).rglob("*.py"))]
    return [path for path in found if not SKIPPED & set(path.parts)]


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules(), ids=shown)
def test_a_module_says_what_it_is_and_stays_readable(path: Path) -> None:
    text = path.read_text("utf-8")
    tree = ast.parse(text)

    lines_max = TEST_LINES_MAX if "tests" in path.parts else MODULE_LINES_MAX
    assert len(text.splitlines()) <= lines_max
    # A test's name is its sentence.
    assert ast.get_docstring(tree) or "tests" in path.parts, "a module opens with one sentence"
    long = [
        f"{node.name}: {(node.end_lineno or 0) - node.lineno + 1} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long


@pytest.mark.parametrize("path", sorted(SCRIPTS.rglob("*.lua")), ids=shown)
def test_a_script_stays_readable(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()

    assert len(lines) <= SCRIPT_LINES_MAX
    assert [line for line in lines if len(line) > SCRIPT_COLUMNS_MAX] == []
    assert [line for line in lines if CROWDED.search(LUA_TEXT.sub("", line))] == []
    # Positions are named once, at the top; nothing counts on from one.
    assert [line for line in lines if re.search(r"(?:KEYS|ARGV)\[[^\]]*[-+*#][^\]]*\]", line)] == []


@pytest.mark.parametrize("path", sorted(SCRIPTS.rglob("*.lua")), ids=shown)
def test_a_script_opens_with_its_contract(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    head = [line for line in lines if not line.startswith("--@use")]
    comment = head[: next(n for n, line in enumerate(head) if not line.startswith("--"))]

    assert comment, "a sentence says what it does"
    if path.parent == SCRIPTS:
        named = [word for line in comment if (word := line.split()[1]) in CONTRACT]
        assert named == list(CONTRACT)
        assert not comment[0].startswith("-- KEYS"), "a sentence says what it does"


def written() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*")):
        if path.is_file() and not SKIPPED & set(path.parts) and path.suffix in TEXTS:
            yield path


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
