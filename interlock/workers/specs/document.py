"""Reads a file that a person wrote, in YAML or JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from interlock.workers.specs.json_document import read_json
from interlock.workers.specs.node import Node, UnreadableError, place_of
from interlock.workers.specs.problems import FileError, Problems
from interlock.workers.specs.yaml_document import read_yaml


@dataclass(frozen=True, slots=True)
class SpecDocument:
    """The values of a file with their lines, its text, and the problems that are found in it."""

    root: Node
    text: str
    problems: Problems


def read_document(path: Path, *, bytes_max: int, advice: str) -> SpecDocument:
    """Read a file of limited size. Raises FileError; for a file that is too large with advice.

    A file whose name ends in .json is JSON, and every other file is YAML.
    """
    text, _ = read_text(path, bytes_max=bytes_max, advice=advice)
    return parse_document(text, path)


def parse_document(text: str, path: Path) -> SpecDocument:
    """Read the text of a file with this path. Raises FileError."""
    try:
        root = read_json(text) if path.suffix.lower() == ".json" else read_yaml(text)
    except UnreadableError as error:
        raise FileError.of_one(path, error.problem, error.line, error.column) from error
    return SpecDocument(root, text, Problems(path))


def read_text(path: Path, *, bytes_max: int, advice: str) -> tuple[str, bytes]:
    """Return the text of a file and its bytes. Raises FileError, as `read_document` does."""
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise FileError.of_one(path, problem) from error
    if len(content) > bytes_max:
        raise FileError.of_one(path, f"has more than {bytes_max} bytes; {advice}")
    try:
        return content.decode("utf-8-sig"), content
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig")
        place = place_of(before, len(before))
        raise FileError.of_one(path, "is not UTF-8; save it as UTF-8", *place) from error
