"""Reads a file that a person wrote, in YAML or JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from interlock.workers.specs.json_document import read_json
from interlock.workers.specs.problems import Problem, Problems, SpecFileError
from interlock.workers.specs.yaml_document import Node, UnreadableError, read_yaml


@dataclass(frozen=True, slots=True)
class SpecDocument:
    """The values of a file with their lines, its text, and the problems that are found in it."""

    root: Node
    text: str
    problems: Problems


def read_document(path: Path, *, bytes_max: int, advice: str) -> SpecDocument:
    """Read a file of limited size. Raises SpecFileError; for a file that is too large with advice.

    A file whose name ends in .json is JSON, and every other file is YAML.
    """
    try:
        text = _read_text(path, bytes_max, advice)
    except UnreadableError as error:
        raise SpecFileError(path, [Problem(error.line, "", error.problem)]) from error
    return parse_document(text, path)


def parse_document(text: str, path: Path) -> SpecDocument:
    """Read the text of a file with this path. Raises SpecFileError."""
    try:
        root = read_json(text) if path.suffix.lower() == ".json" else read_yaml(text)
    except UnreadableError as error:
        raise SpecFileError(path, [Problem(error.line, "", error.problem)]) from error
    return SpecDocument(root, text, Problems(path))


def _read_text(path: Path, bytes_max: int, advice: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise UnreadableError(0, f"cannot be read: {error.strerror or error}") from error
    if len(content) > bytes_max:
        raise UnreadableError(0, f"has more than {bytes_max} bytes; {advice}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableError(line, "is not UTF-8; save it as UTF-8") from error
