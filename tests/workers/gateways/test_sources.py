"""Cleaning up where a request came from: done, done before, or not done; never a guess."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from interlock.systems.threads.requests import read_request
from interlock.workers.files.atomic import replace_bytes
from interlock.workers.gateways import sources
from interlock.workers.gateways.capabilities.extension import ExtensionError
from interlock.workers.gateways.sources import (
    CleanedUp,
    CleanUpFailed,
    CleanUpOutcome,
    Sources,
    load_sources,
)


def clean_up(
    inciting: Mapping[str, Any], *, key: str = "k", root: Path | None = None
) -> CleanUpOutcome:
    """Clean up with the shipped sources."""
    return asyncio.run(load_sources(root=root).clean_up(inciting, key=key))


@pytest.fixture(autouse=True)
def slow_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a source as much time as a slow computer needs."""
    monkeypatch.setattr(sources, "DEADLINE_S", 60)


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    """Put a request into an inbox."""
    folder = tmp_path / "inbox"
    folder.mkdir()
    file = folder / "milk.md"
    file.write_text("# Buy milk\n")
    return file


def test_the_file_of_a_request_moves_to_done(request_file: Path) -> None:
    inciting = read_request(request_file, host="here")["inciting"]

    assert clean_up(inciting) == CleanedUp("moved milk.md to done/milk.md")
    assert not request_file.exists()
    assert (request_file.parent / "done" / "milk.md").read_text() == "# Buy milk\n"


def test_a_file_that_is_gone_is_a_success(request_file: Path) -> None:
    inciting = read_request(request_file, host="here")["inciting"]
    clean_up(inciting)

    outcome = clean_up(inciting)

    assert isinstance(outcome, CleanedUp)
    assert outcome.already_gone


@pytest.mark.parametrize("outage", ["folder is gone", "folder is a file"])
def test_a_folder_that_cannot_be_looked_into_is_never_a_success(
    request_file: Path, outage: str
) -> None:
    inciting = read_request(request_file, host="here")["inciting"]
    folder = request_file.parent
    folder.rename(folder.with_name("unmounted"))
    if outage == "folder is a file":
        folder.write_text("")

    outcome = clean_up(inciting)

    assert isinstance(outcome, CleanUpFailed)
    assert "cannot move" in outcome.detail


def test_another_request_under_the_same_name_is_left_alone(request_file: Path) -> None:
    inciting = read_request(request_file, host="here")["inciting"]
    request_file.write_text("# Buy bread\n")

    outcome = clean_up(inciting)

    assert isinstance(outcome, CleanUpFailed)
    assert "has changed" in outcome.detail
    assert request_file.exists()


def test_a_file_that_was_done_before_is_not_overwritten(request_file: Path) -> None:
    done = request_file.parent / "done"
    done.mkdir()
    (done / "milk.md").write_text("older")
    inciting = read_request(request_file, host="here")["inciting"]

    clean_up(inciting)

    digest = hashlib.sha256(b"# Buy milk\n").hexdigest()
    assert (done / "milk.md").read_text() == "older"
    assert (done / f"milk.{digest[:12]}.md").read_text() == "# Buy milk\n"


def test_with_a_root_nothing_outside_it_is_touched(request_file: Path, tmp_path: Path) -> None:
    inciting = read_request(request_file, host="here")["inciting"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    assert not load_sources(root=elsewhere).can_clean_up(inciting)
    assert isinstance(clean_up(inciting, root=elsewhere), CleanUpFailed)
    assert request_file.exists()
    assert isinstance(clean_up(inciting, root=tmp_path), CleanedUp)


def note(path: Path, line: str) -> dict[str, Any]:
    """Return the event of a note's line."""
    return {"source": "note_line", "fields": {"note_path": str(path), "line_text": line}}


def test_the_first_line_with_that_text_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "journal.txt"
    path.write_bytes("ä\r\n  call Ann \nlast\ncall Ann\nno newline".encode())

    assert clean_up(note(path, " call Ann")) == CleanedUp("deleted the line from journal.txt")
    assert path.read_bytes() == "ä\r\nlast\ncall Ann\nno newline".encode()


def test_a_repetition_does_not_delete_the_next_equal_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.txt"
    path.write_text("call Ann\ncall Ann\ncall Ann\n")

    clean_up(note(path, "call Ann"), key="first")
    again = clean_up(note(path, "call Ann"), key="first")
    other = clean_up(note(path, "call Ann"), key="second")

    assert again == CleanedUp("the line is no longer in journal.txt", already_gone=True)
    assert other == CleanedUp("deleted the line from journal.txt")
    assert path.read_text() == "call Ann\n"


def test_a_crash_between_the_ledger_and_the_note_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.txt"
    path.write_text("call Ann\n")
    written: list[Path] = []

    def once(target: Path, content: bytes) -> None:
        if written:
            raise OSError(28, "No space left on device")
        written.append(target)
        replace_bytes(target, content)

    with monkeypatch.context() as patch:
        patch.setattr("interlock.workers.gateways.sources.replace_bytes", once)
        assert isinstance(clean_up(note(path, "call Ann")), CleanUpFailed)

    assert clean_up(note(path, "call Ann")) == CleanedUp("deleted the line from journal.txt")
    assert path.read_text() == ""


def test_a_note_that_is_missing_is_never_a_success(tmp_path: Path) -> None:
    for path in (tmp_path / "journal.txt", tmp_path / "nowhere" / "journal.txt"):
        outcome = clean_up(note(path, "call Ann"))

        assert isinstance(outcome, CleanUpFailed)
        assert "mounted" in outcome.detail


def test_a_note_is_found_beside_the_request_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "journal.txt").write_text("call Ann\n")
    file = tmp_path / "ann.md"
    file.write_text(
        "---\nsource: note_line\nfields: {note_path: journal.txt, line_text: call Ann}\n---\n"
    )

    assert isinstance(clean_up(read_request(file, host="here")["inciting"]), CleanedUp)
    assert (tmp_path / "journal.txt").read_text() == ""


@pytest.mark.parametrize(
    "inciting",
    [
        {},
        {"source": "moon", "fields": {}},
        {"source": "inbox", "fields": {"request_path": 1, "request_sha256": "a"}},
        {"source": "inbox", "fields": None},
        {"source": "inbox", "fields": {"request_path": "milk.md", "request_sha256": "a"}},
        {"source": "inbox", "fields": {"request_path": "/a\0b/milk.md", "request_sha256": "a"}},
        {"source": "note_line", "fields": {"note_path": "a", "line_text": "  "}},
    ],
)
def test_an_event_without_a_way_back_to_its_source_is_a_failure(inciting: dict[str, Any]) -> None:
    outcome = clean_up(inciting)

    assert isinstance(outcome, CleanUpFailed)


class Tab:
    """A source of someone else's making."""

    name = "tab"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def can_clean_up(self, inciting: Mapping[str, Any]) -> bool:
        return bool(inciting["fields"])

    async def clean_up(self, inciting: Mapping[str, Any], *, key: str) -> Any:
        del inciting, key
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (KeyError("tab"), "KeyError: 'tab'"),
        (TimeoutError(), "did not end within"),
        (True, "returned a bool"),
    ],
)
def test_any_behaviour_of_a_source_is_an_outcome(answer: object, problem: str) -> None:
    outcome = asyncio.run(
        Sources([Tab(answer)]).clean_up({"source": "tab", "fields": {"a": 1}}, key="k")
    )

    assert isinstance(outcome, CleanUpFailed)
    assert problem in outcome.detail


def test_a_source_that_cannot_even_tell_says_no() -> None:
    assert not Sources([Tab(None)]).can_clean_up({"source": "tab"})


def test_modules_add_sources_and_replace_the_shipped_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("some_sources")
    monkeypatch.setitem(sys.modules, "some_sources", module)
    gone = CleanedUp("closed")
    module.__dict__["SOURCES"] = [Tab(gone)]

    loaded = load_sources("some_sources")

    event = {"source": "tab", "fields": {"a": 1}}
    assert asyncio.run(loaded.clean_up(event, key="k")) is gone
    module.__dict__["SOURCES"] = [object()]
    with pytest.raises(ExtensionError, match="without a name"):
        load_sources("some_sources")
