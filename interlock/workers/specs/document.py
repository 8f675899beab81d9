"""A file that a person wrote, in YAML, in JSON, or in Markdown with front matter."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from interlock.workers.specs.front_matter import split
from interlock.workers.specs.json_document import read_json
from interlock.workers.specs.node import Node, UnreadableError, node_of, place_of
from interlock.workers.specs.part import FilePart
from interlock.workers.specs.problems import FileError, Location, Problems
from interlock.workers.specs.yaml_document import read_yaml

_Model = TypeVar("_Model", bound=BaseModel)


class Document:
    """A file that a person wrote, as its text, and as values with their places, or data of JSON.

    A file whose name ends in .json is JSON; of one that ends in .md the values are those of the
    front matter, and `body` is the text after it. Every other file is YAML.

    A block that begins with a document checks it: at the end FileError is raised with every problem
    that was found in the block.
    """

    def __init__(self, root: Node, problems: Problems, called: str = "") -> None:
        """Use `read` for a file, `parse` for its text, and `of` for data."""
        self.path, self.text, self.body, self.content = problems.path or Path(), "", "", b""
        self._problems = problems
        self._root = FilePart(root, Location(problems, called))

    @classmethod
    def of(cls, data: Any, called: str = "") -> Document:
        """Return data of JSON, which are in no file. The error says what `called` lacks."""
        return cls(node_of(data), Problems(None), called)

    @classmethod
    def parse(cls, text: str, path: Path) -> Document:
        """Read the text of a file with this path. Raises FileError."""
        body = ""
        try:
            if path.suffix.lower() == ".json":
                root = read_json(text)
            elif path.suffix.lower() == ".md":
                front, body = split(text)
                root = read_yaml(front)
                root = root.holding({}) if root.value is None else root
            else:
                root = read_yaml(text)
        except UnreadableError as error:
            raise FileError.of_one(path, error.problem, error.line, error.column) from error
        document = cls(root, Problems(path))
        document.text, document.body = text, body
        return document

    @classmethod
    def read(cls, path: Path, *, bytes_max: int, advice: str) -> Document:
        """Read a file of limited size. Raises FileError; for a file that is too large with advice.

        `content` has its bytes.
        """
        try:
            with path.open("rb") as file:
                content = file.read(bytes_max + 1)
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
            raise FileError.of_one(path, problem) from error
        if len(content) > bytes_max:
            raise FileError.of_one(path, f"has more than {bytes_max} bytes; {advice}")
        try:
            document = cls.parse(content.decode("utf-8-sig"), path)
        except UnicodeDecodeError as error:
            before = content[: error.start].decode("utf-8-sig")
            place = place_of(before, len(before))
            raise FileError.of_one(path, "is not UTF-8; save it as UTF-8", *place) from error
        document.content = content
        return document

    def __enter__(self) -> FilePart:
        """Begin a check, and return the whole file as a part."""
        self._problems.clear()
        return self._root

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Raise FileError if the check has found a problem."""
        if kind is None:
            self._problems.raise_if_any()

    @property
    def count(self) -> int:
        """The number of problems that were found so far."""
        return self._problems.count

    def model(self, model: type[_Model]) -> _Model:
        """Return the whole file as its model. Raises FileError with every problem."""
        with self as root:
            found = root.read(model)
        assert found is not None, "a file without problems is read"
        return found
