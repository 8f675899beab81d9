"""The check of the table of requirements: it refuses each row that leads to nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import documents, requirements

TESTS = """
import pytest

def test_kept(): ...

@pytest.mark.proof
def test_proof(): ...

@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.proof)])
def test_each(n): ...

def helper(): ...
"""
GOOD = "| B01 | It keeps. | done | `kept.py` | `test_a.py::test_kept` |"
NewPage = Callable[..., list[str]]


@pytest.fixture
def faults_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NewPage:
    """Return a function that writes rows into a page about one line, and returns its faults."""
    monkeypatch.setattr(requirements, "SOURCES", {"B": ("Bernstein", 1)})
    (tmp_path / "kept.py").touch()
    (tmp_path / "test_a.py").write_text(TESTS)
    (tmp_path / "test_proof.py").write_text(f"pytestmark = [pytest.mark.proof]\n{TESTS}")
    page = tmp_path / "page.md"

    def faults(*rows: str) -> list[str]:
        page.write_text("\n".join(("# A page", *rows, "")))
        return list(requirements.faults(page, tmp_path))

    return faults


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("test_kept", "test_each[1]"),
        ("done", "ours: it is better"),
        ("done | `kept.py` | `test_a.py::test_kept`", "open: the rest | - | -"),
        ("`kept.py`", "`kept.py`, `test_a.py`"),
    ],
)
def test_a_row_that_leads_to_what_there_is_has_no_fault(
    faults_of: NewPage, old: str, new: str
) -> None:
    assert faults_of(GOOD.replace(old, new)) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("test_kept", "test_gone", "there is no test test_a.py::test_gone"),
        ("test_kept", "test_gone[1]", "there is no test test_a.py::test_gone[1]"),
        ("test_kept", "helper", "there is no test test_a.py::helper"),
        ("test_kept", "test_proof", "there is no test test_a.py::test_proof"),
        ("test_a.py", "test_b.py", "there is no test test_b.py::test_kept"),
        ("test_a.py", "test_proof.py", "there is no test test_proof.py::test_kept"),
        ("`kept.py`", "`lost.py`", "there is no file lost.py"),
        ("`kept.py`", "-", "it names no file, or no test"),
        ("`test_a.py::test_kept`", "", "it names no file, or no test"),
        ("done", "kept: so", "its verdict is 'kept' and not one of done, ours, open"),
        ("done", "ours", "`ours` and `open` need a reason"),
        ("done", "done: nearly", "`ours` and `open` need a reason, and `done` has none"),
    ],
)
def test_a_row_that_leads_to_nothing_is_named_with_its_fault(
    faults_of: NewPage, old: str, new: str, fault: str
) -> None:
    (found,) = faults_of(GOOD.replace(old, new))

    assert found.startswith(f"B01: {fault}")


def test_an_id_that_is_missing_unknown_or_there_twice_is_named(faults_of: NewPage) -> None:
    assert faults_of() == ["B01 has no row"]
    assert faults_of(GOOD, GOOD) == ["B01 has 2 rows"]
    assert faults_of(GOOD, GOOD.replace("B01", "X01")) == ["X01 is no id of a source"]
    assert faults_of(GOOD.replace("| done", "done")) == ["B01 has no row"]


def test_the_page_of_this_project_has_no_fault_and_its_counts_are_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = documents.REQUIREMENTS.read_text("utf-8")
    assert requirements.counts(documents.REQUIREMENTS) in text
    page = tmp_path / "requirements.md"
    page.write_text(text.replace("| B01 |", "| B999 |"), "utf-8")
    monkeypatch.setattr(documents, "REQUIREMENTS", page)

    assert documents.main(["--check"]) == 1
    assert "B01 has no row" in capsys.readouterr().err
