"""YAML with lines, read by two parsers that must agree."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.workers.specs import yaml_document
from interlock.workers.specs.node import (
    DEPTH_MAX,
    NODES_MAX,
    NUMBER_LENGTH_MAX,
    Node,
    UnreadableError,
)
from interlock.workers.specs.yaml_document import read_yaml
from tests.any_text import any_text

PARSERS = [yaml.SafeLoader, *([yaml.CSafeLoader] if yaml.__with_libyaml__ else [])]


@pytest.fixture(params=PARSERS, ids=[parser.__name__ for parser in PARSERS])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read with each parser."""
    monkeypatch.setattr(yaml_document, "LOADER", request.param)


def refusal(text: str) -> str:
    """Return why a text cannot be read, with its line."""
    with pytest.raises(UnreadableError) as refused:
        read_yaml(text)
    return f"{refused.value.line}: {refused.value.problem}"


@pytest.mark.usefixtures("parser")
def test_every_value_has_its_place() -> None:
    root = read_yaml("a: 1\nb:\n  - x\n  - c:\n      2\n\ntext: |\n  long\n  text\nlast:\n")

    def line(*path: str | int) -> int:
        return root.at(*path).line

    assert root.plain() == {"a": 1, "b": ["x", {"c": 2}], "text": "long\ntext\n", "last": None}
    assert [line("b"), line("b", 0), line("b", 1, "c")] == [2, 3, 4]
    assert [line("text"), line("last")] == [7, 10]
    assert line("b", 7) == 2, "a missing value has the line of its list"
    assert line("a", "x") == line() == line("nothing") == 1
    assert [root.at(*path).column for path in [("b",), ("b", 0), ("b", 1, "c")]] == [
        1,
        5,
        5,
    ]
    flow = read_yaml("{a: [1, {b: 2}]}")
    assert [flow.at(*path).column for path in [(), ("a", 0), ("a", 1, "b")]] == [1, 6, 10]


@pytest.mark.usefixtures("parser")
def test_a_value_has_the_text_of_the_file() -> None:
    root = read_yaml("- 1_0\n- '1'\n- yes\n- ~\n- 0.10\n- =\n- 08\n- 2026-01-02")

    assert [node.text for node in root.value] == [
        "1_0",
        "1",
        "yes",
        "~",
        "0.10",
        "=",
        "08",
        "2026-01-02",
    ]
    assert [node.value for node in root.value[:-1]] == [10, "1", True, None, 0.1, "=", "08"]


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("text", ["", "# nothing\n", "\n\n"])
def test_a_text_without_a_value_is_null(text: str) -> None:
    assert read_yaml(text) == Node(1, 1, None)


REFUSED = [
    ("a: [\n1", "2: it is not YAML: while parsing a flow sequence"),
    ("a: [\n1\n", "it is not YAML: while parsing a flow sequence"),
    ("a: b: c", "1: it is not YAML: mapping values are not allowed"),
    ("a: 1\n---\nb: 2\n", "2: it is not YAML: expected a single document, but this begins another"),
    ("a: 1\n...\nb: 2\n", "it is not YAML: "),
    ("a:\n  x: 1\n  y: 2\n  x: 3\n", "4: 'x' is there twice, first in line 2; remove one"),
    ('1: a\n"1": b\n', "2: '1' is there twice, first in line 1"),
    ("1: a\n1.0: b\n", "2: '1.0' is there twice, first in line 1"),
    ("~: a\nnull: b\n", "2: 'null' is there twice, first in line 1"),
    ("a: &b [1]\nc: *b\n", "2: the alias *b is not allowed; write it out"),
    ("*a : b\n", "1: the alias *a is not allowed; write it out"),
    ("a: !x b\n", "1: the tag !x is not allowed; leave it out"),
    ("a: !%0Ab c\n", "1: the tag !\\nb is not allowed; leave it out"),
    ("a: ! b\n", "1: the tag ! is not allowed; leave it out"),
    ("a:\n  <<: {b: c}\n", "2: the merge << is not allowed; write it out"),
    ("? {a: b}\n: c\n", "1: a key is a list or a mapping; write a word"),
    ("a: 1:30", "1: 1:30 can be read as two numbers; put it in quotation marks or write"),
    ("a: 1:30.5", "1: 1:30.5 can be read as two numbers"),
    ("a: -017", "1: -017 can be read as two numbers"),
    ("a: 0_7", "1: 0_7 can be read as two numbers"),
    (f"a: {'1' * (NUMBER_LENGTH_MAX + 1)}", f"1: a number of {NUMBER_LENGTH_MAX + 1} characters"),
    ("a: 1\nb: 2026-02-30", "2: it is not YAML: day is out of range for month; correct it"),
    ("a: 1\nb: \x07", "2: it is not YAML: unacceptable character #x0007; take it out"),
    ("a: 1\nb: \ufeff", "2: it is not YAML: unacceptable character #xfeff; take it out"),
    ("a: \ud800", "1: it is not YAML: unacceptable character #xd800; take it out"),
    ("[" * 17, "1: it is nested deeper than 16 levels; make it flatter"),
]


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(("text", "expected"), REFUSED, ids=[expected for _, expected in REFUSED])
def test_a_refusal_has_its_line(text: str, expected: str) -> None:
    assert expected in refusal(text)
    assert refusal(text).isprintable()


@pytest.mark.usefixtures("parser")
def test_a_merge_key_in_quotation_marks_is_a_text() -> None:
    assert read_yaml('{"<<": {a: b}, a: c}').plain() == {"<<": {"a": "b"}, "a": "c"}


@pytest.mark.usefixtures("parser")
def test_the_depth_of_a_text_is_limited() -> None:
    assert read_yaml("[" * DEPTH_MAX + "]" * DEPTH_MAX).line == 1
    assert "deeper" in refusal("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1))


@pytest.mark.usefixtures("parser")
def test_the_number_of_values_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert NODES_MAX == 1_000_000
    monkeypatch.setattr(yaml_document, "NODES_MAX", 10)

    assert read_yaml("[" + "1," * 9 + "]").plain() == [1] * 9
    assert refusal("[1,1,\n" + "1," * 8 + "]") == "2: it has more than 10 values; split it"


PIECES = ["a", "b: ", "- ", "\n", "  ", "\n  ", "{", "}", "[", "]", ",", ": ", ":", "'", '"', "#"]
PIECES += [" #", "|", "|\n", ">\n", "? ", "&a ", "*a", "!x ", "%", "---\n", "...\n", "1", "0.5"]
PIECES += ["true", "~", "\t", "\\", "\\n", "\\x41", "\\ud83d", "\r", "\r\n", "\x85", "\u2028", "é"]
PIECES += ["=", "<<", "@", "`", "-", ".", "2026-01-01", "1:30", "010", ">-\n", "|+\n", "\ufeff"]


def outcome(text: str, loader: type) -> Node | str:
    """Return the root that one parser reads, or the problem that it reports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_document, "LOADER", loader)
        try:
            return in_column_one(read_yaml(text))
        except UnreadableError as error:
            return error.problem


def in_column_one(node: Node) -> Node:
    """Return a node without its columns: the parsers differ in that of a value that is left out."""
    value = node.value
    if isinstance(value, dict):
        value = {key: in_column_one(inner) for key, inner in value.items()}
    elif isinstance(value, list):
        value = [in_column_one(inner) for inner in value]
    return Node(node.line, 1, value, node.text)


@pytest.mark.skipif(len(PARSERS) < 2, reason="PyYAML comes without its parser in C here")
@pytest.mark.fuzz
@given(text=st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | any_text(max_size=50))
@example(text="---")
@example(text="a:")
@example(text="[\ufeffa]")
@example(text="- \ufeff")
def test_both_parsers_read_the_same(text: str) -> None:
    slow, fast = (outcome(text, parser) for parser in PARSERS)

    if isinstance(slow, str):
        return  # the parser in C accepts tabs, as the newer YAML does
    assert fast == slow or "invalid Unicode character escape code" in str(fast)
