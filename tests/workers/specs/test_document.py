"""Files that people write, as the systems read them, and the error that lists their problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.dependencies import Dependencies
from interlock.workers.specs.document import Document
from interlock.workers.specs.part import FilePart
from interlock.workers.specs.problems import FileError, Problem, Problems


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "spec.yaml"


def refusal(file: Path, bytes_max: int = 99) -> str:
    """Return why a file cannot be read."""
    with pytest.raises(FileError) as refused:
        Document.read(file, bytes_max=bytes_max, advice="split it")
    return str(refused.value)


def read(file: Path) -> dict[str, Any]:
    """Return what is in a file."""
    with Document.read(file, bytes_max=99, advice="") as root:
        return {key: part.value for key, part in root.fields.items()}


def test_a_file_must_be_readable_text_of_limited_size(file: Path) -> None:
    assert refusal(file) == f"{file}: cannot be read: No such file or directory"
    assert refusal(file.parent) == f"{file.parent}: cannot be read: Is a directory"
    file.write_bytes(b"a: 1\nb: \xff\n")
    assert refusal(file) == f"{file}:2:4: is not UTF-8; save it as UTF-8"
    file.write_bytes(b"\xef\xbb\xbfx: 1")
    assert refusal(file, bytes_max=6) == f"{file}: has more than 6 bytes; split it"
    assert Document.read(file, bytes_max=7, advice="").text == "x: 1"


def test_a_file_is_json_if_its_name_ends_so_and_otherwise_yaml(file: Path) -> None:
    file.write_text("a: 1\n")
    assert read(file) == {"a": 1}
    json = file.with_suffix(".JSON")
    json.write_text('{"a":\t"\\ud83c\\udf89"}')
    assert read(json) == {"a": "\U0001f389"}
    json.write_text("a: 1\n")
    assert refusal(json).startswith(f"{json}:1:1: it is not JSON: ")


def test_an_error_lists_the_problems_in_the_order_of_their_lines(file: Path) -> None:
    problems = Problems(file)
    problems.raise_if_any()
    problems.add(Problem(7, 3, "step 'a': limits.cost", "write US dollars"))
    problems.add(Problem(2, 1, "", "it is nested too deep"))

    with pytest.raises(FileError) as refused:
        problems.raise_if_any()

    assert str(refused.value).split("\n") == [
        f"{file}:2:1: it is nested too deep",
        f"{file}:7:3: step 'a': limits.cost: write US dollars",
    ]
    assert [problem.line for problem in refused.value.problems] == [2, 7]


def test_each_block_of_a_document_raises_what_was_found_in_it(file: Path) -> None:
    document = Document.parse("a: [x, y]", file)
    for advice in ("write b", "write c"):
        with pytest.raises(FileError) as refused, document as root:
            root.at("a", 1).refuse(advice)
        assert str(refused.value) == f"{file}:1:8: a (entry 2): {advice}"
    with document as root:
        assert root.at("b").value is None


def test_of_markdown_the_front_matter_is_read(file: Path) -> None:
    note = file.with_suffix(".md")

    document = Document.parse("---\r\na: 1\r\n---\r\nThe text.\n", note)

    with pytest.raises(FileError, match=f"^{note}:2:1: a: no$"), document as root:
        root.at("a").refuse("no")
    assert document.body == "The text.\n"
    assert Document.parse("No front matter", note).body == "No front matter"


def test_items_are_known_by_their_names_and_refused_if_they_wait_for_themselves(file: Path) -> None:
    text = "steps:\n- {name: a, after: [b]}\n- {name: b, after: [a]}\n- {name: c}\n"

    def refuse_cycles(root: FilePart) -> None:
        steps = root.at("steps").items("step", count_max=3, advice="split it")
        after = {name: step.at("after").names(FilePart.name) for name, step in steps}
        for (name, other), problem in Dependencies(after).refusals().items():
            after[name][other].refuse(problem)

    with pytest.raises(FileError) as refused, Document.parse(text, file) as root:
        refuse_cycles(root)

    cycle = "a -> b -> a is a cycle; remove one of these dependencies"
    assert str(refused.value) == f"{file}:2:21: step 'a': after: {cycle}"
