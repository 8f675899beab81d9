"""Requests as people write them, and the errors for those that cannot be read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.systems.threads.requests import FrontMatter, read_request, request_files
from interlock.workers.specs.problems import FileError
from tests.any_text import any_text

WHOLE = """\ufeff---
id: tea-party
title: Tea on Sunday
source: letter
at: 2026-03-04 10:00:00+01:00
priority: 0
policy: {composition: ask_every_step, budget_usd: 0.1}
items:
  - the guest list
  - {id: cake, label: The cake, type: thing, source: kitchen, payload: {when: 2026-03-04}}
fields: {guests: 4, outside: yes, day: 2026-03-08}
children:
  - title: Bake
  - {title: Invite, text: All of them, fields: {by: 2026-03-06}}
relationship: group
---

Let us have tea.
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a test's request."""
    return tmp_path / "Buy Milk, please!.md"


def test_every_key_is_read(file: Path) -> None:
    file.write_text(WHOLE)

    assert read_request(file, host="here") == {
        "id": "tea-party",
        "inciting": {
            "source": "letter",
            "title": "Tea on Sunday",
            "text": "Let us have tea.",
            "at": "2026-03-04T10:00:00+01:00",
            "fields": {
                "guests": 4,
                "outside": True,
                "day": "2026-03-08",
                "request_host": "here",
                "request_path": str(file),
                "request_sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
            },
        },
        "items": [
            {
                "id": "item-1",
                "source": "letter",
                "type": "note",
                "label": "the guest list",
                "payload": {},
            },
            {
                "id": "cake",
                "source": "kitchen",
                "type": "thing",
                "label": "The cake",
                "payload": {"when": "2026-03-04"},
            },
        ],
        "policy": {"composition": "ask_every_step", "budget_usd": 0.1},
        "children": [
            {"title": "Bake", "text": "", "fields": {}},
            {"title": "Invite", "text": "All of them", "fields": {"by": "2026-03-06"}},
        ],
        "relationship": "group",
        "priority": 0,
    }


def test_no_line_of_front_matter_is_needed(file: Path) -> None:
    file.write_text("# Milk\r\n\r\nTwo litres.\r\n")

    request = read_request(file, host="here")

    assert request["id"] == "buy-milk-please"
    assert request["inciting"]["title"] == "Milk"
    assert request["inciting"]["text"] == "Two litres."
    assert (request["inciting"]["source"], request["inciting"]["at"]) == ("inbox", None)
    assert (request["items"], request["policy"]) == ([], None)
    assert (request["children"], request["relationship"]) == (None, None)
    assert request["priority"] == 5


@pytest.mark.parametrize("content", ["", "\n\n", "---\n---\n", "---\n# only a comment\n---"])
def test_an_empty_request_is_a_request(file: Path, content: str) -> None:
    file.write_text(content)

    inciting = read_request(file, host="here")["inciting"]

    assert (inciting["title"], inciting["text"]) == ("", "")


def test_without_a_heading_the_first_line_is_the_title(file: Path) -> None:
    file.write_text("Milk is out.\n\n---\n\nPlease buy some.")

    inciting = read_request(file, host="here")["inciting"]

    assert inciting["title"] == "Milk is out."
    assert inciting["text"] == "Milk is out.\n\n---\n\nPlease buy some."


def test_a_composition_can_be_given_by_its_name(file: Path) -> None:
    file.write_text("---\npolicy: end_to_end\n---\n")

    assert read_request(file, host="here")["policy"] == {"composition": "end_to_end"}


def test_children_are_parts_of_the_work_unless_the_request_differs(file: Path) -> None:
    file.write_text("---\nchildren: [{title: a}]\n---\n")

    assert read_request(file, host="here")["relationship"] == "decompose"


@pytest.mark.parametrize(
    ("front", "line", "problem"),
    [
        ("id: a\ncolour: red", 3, "'colour' is not a field here; known: id, title"),
        ("id: a\n\nid: b", 4, "'id' is there twice, first in line 2; remove one"),
        ("id: a/b", 2, "a slash is only for the ids of children"),
        ("id: 'a b'", 2, "cannot be an id"),
        ("title: x\nid: 7", 3, "id: 7: it is not text; put it in quotation marks"),
        ("at: tomorrow", 2, "at: 'tomorrow': it is not a date"),
        ("at: [1]", 2, "at: [1]: it is not a date"),
        ("priority: 10", 2, "write 0 (first) to 9 (last)"),
        ("priority: true", 2, "write 0 (first)"),
        ("policy: 3", 2, "a composition's name"),
        ("items: one", 2, "write a list"),
        ("items: [{type: a}]", 2, "items (entry 1): write its label, or only a text"),
        ("items: [a, {label: b, colour: red}]", 2, "items (entry 2): 'colour' is not a field here"),
        (
            "items: [{label: a, payload: 1}]",
            2,
            "items (entry 1).payload: 1: write lines of the form key: value",
        ),
        ("items: [{label: a, id: x}, {label: b, id: x}]", 2, "two items have the id 'x'"),
        ("fields: 1", 2, "key: value"),
        ("fields: {a: .nan}", 2, "JSON cannot express"),
        ('fields: {a: "\\ud800"}', 2, "invalid Unicode character escape code"),
        ("fields: {a: !!binary aGk=}", 2, "the tag tag:yaml.org,2002:binary is not allowed"),
        ("children: []", 2, "it is empty; write at least one child"),
        ("children: [a]", 2, "children (entry 1): 'a': write lines of the form key: value"),
        (
            "children: [{title: a, capability: run_command}]",
            2,
            "children (entry 1): 'capability' is not a field here",
        ),
        ("children: [{title: a, text: 1}]", 2, "children (entry 1).text: 1: it is not text"),
        ("relationship: group", 2, "it needs children"),
        (
            "children: [{title: a}]\nrelationship: twins",
            3,
            "'twins': write decompose, group or singular",
        ),
        ("a: &a [1]\nb: *a", 3, "the alias *a is not allowed; write it out"),
        ("title: [", 2, "is not YAML"),
        ("title: a\n  b: c", 3, "is not YAML"),
        ("- a", 2, "lines of the form key: value"),
        ("title: !!python/object:os.system x", 2, "is not allowed; leave it out"),
        ("id: a\ntitle: " + "[" * 50_000, 3, "it is nested deeper than 16 levels; make it flatter"),
        ("title: " + "a" * 70_000, 2, "is longer than 65536 characters"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_line(
    file: Path, front: str, line: int, problem: str
) -> None:
    file.write_text(f"---\n{front}\n---\ntext\n")

    with pytest.raises(FileError) as raised:
        read_request(file, host="here")

    assert problem in str(raised.value)
    assert str(raised.value).startswith(f"{file}:{line}:")


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"---\ntitle: a\n", 1, "is not closed"),
        (b"fine\n\xff", 2, "is not UTF-8"),
        (b"fine\n\na\0b", 3, "NUL"),
        (
            b"x" * (256 * 1024 + 1),
            0,
            "has more than 262144 bytes; put what is long into other files",
        ),
    ],
)
def test_a_file_that_is_not_text_is_refused_with_its_reason(
    file: Path, content: bytes, line: int, problem: str
) -> None:
    file.write_bytes(content)

    with pytest.raises(FileError, match=problem) as raised:
        read_request(file, host="here")

    assert [problem.line for problem in raised.value.problems] == [line]


def test_a_name_that_gives_no_id_needs_one(tmp_path: Path) -> None:
    file = tmp_path / "\u2026.md"
    file.write_text("text")

    with pytest.raises(FileError, match="give one in the front matter"):
        read_request(file, host="here")


def test_a_folder_gives_its_requests_and_a_file_itself(tmp_path: Path) -> None:
    for name in ("b.md", "a.md", ".hidden.md", "notes.txt", "done/c.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")

    assert [found.name for found in request_files(tmp_path)] == ["a.md", "b.md"]
    assert request_files(tmp_path / "a.md") == (tmp_path / "a.md",)
    with pytest.raises(FileError, match="Markdown"):
        request_files(tmp_path / "notes.txt")


def test_a_folder_without_requests_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no request"):
        request_files(tmp_path)
    with pytest.raises(FileError, match="it does not exist"):
        request_files(tmp_path / "none")
    with pytest.raises(FileError, match="cannot be read: No such file"):
        read_request(tmp_path / "none.md", host="here")


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from([*FrontMatter.model_fields]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | any_text(),
            lambda inner: st.lists(inner) | st.dictionaries(any_text(), inner),
            max_leaves=8,
        ),
    )
)
def test_any_front_matter_gives_json_or_an_error_with_a_line(
    file: Path, front: dict[str, Any]
) -> None:
    # JSON is YAML; the table above has the values that JSON cannot express.
    text = "\n".join(f"{key}: {json.dumps(value)}" for key, value in front.items())
    file.write_text(f"---\n{text}\n---\n")

    try:
        request = read_request(file, host="here")
    except FileError as error:
        lines = [problem.line for problem in error.problems]
    else:
        lines = []
        json.dumps(request, allow_nan=False, ensure_ascii=False).encode()

    assert all(1 <= line <= len(front) + 2 for line in lines)
