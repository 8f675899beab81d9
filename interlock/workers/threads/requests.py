"""Reads a request that a person wrote, Markdown with front matter, into the payload of a thread.

A file with a mistake is refused with the line of the mistake; nothing is guessed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from math import isfinite
from pathlib import Path
from typing import Any

import yaml

from interlock.kernel.errors import CallError, InvalidIdError
from interlock.kernel.machines.threads.autonomy import COMPOSITIONS
from interlock.kernel.machines.threads.thread.payloads import REQUEST_HOST
from interlock.kernel.record import CHILDREN_MAX, record_id

BYTES_MAX = 256 * 1024
FRONT_LENGTH_MAX = 64 * 1024
ITEMS_MAX = 1000
PRIORITY_MAX = 9
PRIORITY_DEFAULT = 5
DEPTH_MAX = 16
RELATIONSHIPS = ("decompose", "group", "singular")
KEYS = (
    "id",
    "title",
    "source",
    "at",
    "priority",
    "policy",
    "items",
    "fields",
    "children",
    "relationship",
)
_FENCE = "---"
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_NOT_IN_IDS = re.compile(r"[^a-z0-9._~]+")


class RequestError(CallError):
    """A file is not a valid request. Correct the file at the line that the message names."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")
        self.path, self.line, self.problem = path, line, problem


class RequestsError(CallError):
    """Some of several files are no valid requests. None of them was submitted."""

    def __init__(self, faults: Sequence[RequestError]) -> None:
        several = f"; nothing was submitted, {len(faults)} files are wrong" * (len(faults) > 1)
        super().__init__("\n".join(map(str, faults)) + several)
        self.faults = tuple(faults)


def request_files(path: Path) -> tuple[Path, ...]:
    """Return the request files of a path: the file itself, or the *.md files directly in a folder.

    Raises RequestError for a folder without any, or for a file that is not Markdown.
    """
    if not path.is_dir():
        if path.suffix != ".md":
            raise RequestError(path, 0, "a request is a Markdown file, *.md")
        return (path,)
    found = tuple(sorted(file for file in path.glob("*.md") if not file.name.startswith(".")))
    if not found:
        raise RequestError(path, 0, "there is no request (*.md) in this folder")
    return found


def read_request(path: Path, *, host: str) -> dict[str, Any]:
    """Read one file: id, inciting, items, policy, children, relationship, priority.

    The id is the file's name as a slug, unless the front matter gives one. `inciting.fields` has
    the file's path and sha256, and this computer's name, its `host`, beside the `fields` of the
    front matter. Raises RequestError.
    """
    text, digest = _read(path)
    front, body = _split(path, text)
    front_matter = _FrontMatter(path, front)
    title, text = _title_and_text(front_matter.text("title"), body)
    source = front_matter.text("source") or "inbox"
    children = front_matter.children()
    return {
        "id": front_matter.id(default=path.stem),
        "inciting": {
            "source": source,
            "title": title,
            "text": text,
            "at": front_matter.moment(),
            "fields": {
                **front_matter.fields(),
                REQUEST_HOST: host,
                "request_path": str(path.resolve()),
                "request_sha256": digest,
            },
        },
        "items": front_matter.items(source),
        "policy": front_matter.policy(),
        "children": children,
        "relationship": front_matter.relationship(children),
        "priority": front_matter.priority(),
    }


def _read(path: Path) -> tuple[str, str]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(path, 0, f"cannot be read: {error.strerror or error}") from error
    if len(content) > BYTES_MAX:
        raise RequestError(path, 0, f"has {len(content)} bytes, at most {BYTES_MAX} are allowed")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RequestError(path, line, "is not UTF-8; save it as UTF-8") from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise RequestError(path, text.count("\n", 0, text.index("\0")) + 1, "has a NUL character")
    return text, hashlib.sha256(content).hexdigest()


def _split(path: Path, text: str) -> tuple[str, str]:
    """Return the front matter and the body."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return "", text
    for number, line in enumerate(lines[1:], start=2):
        if line.rstrip() == _FENCE:
            return "\n".join(lines[1 : number - 1]), "\n".join(lines[number:])
    raise RequestError(
        path, 1, "the front matter is not closed; end it with a line of three dashes"
    )


def _title_and_text(given: str | None, body: str) -> tuple[str, str]:
    """Return title and text; the title is the given one, or the first heading or line."""
    text = body.strip()
    first, _, rest = text.partition("\n")
    if given is not None:
        return given, text
    if first.startswith("# "):
        return first[2:].strip(), rest.strip()
    return first.strip()[:120], text


class _FrontMatter:
    """The front matter of one file. Every value is checked; an error names the value's line."""

    def __init__(self, path: Path, front: str) -> None:
        self._path = path
        self._lines: dict[str, int] = {}
        self._values: Mapping[str, Any] = {}
        if front.strip():
            self._load(front)

    def _load(self, front: str) -> None:
        if len(front) > FRONT_LENGTH_MAX:
            problem = f"the front matter is longer than {FRONT_LENGTH_MAX} characters"
            raise self._error(0, problem)
        try:
            self._check_events(yaml.parse(front, Loader=yaml.SafeLoader))
            node = yaml.compose(front, Loader=yaml.SafeLoader)
            if node is not None:
                self._check_keys(node)
                self._values = yaml.safe_load(front)
        except yaml.MarkedYAMLError as error:
            line = _line_of(error.problem_mark)
            raise self._error(line, f"is not YAML: {error.problem or error.context}") from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise self._error(0, f"is not YAML: {str(error) or type(error).__name__}") from error

    def _check_events(self, events: Iterable[yaml.Event]) -> None:
        depth = 0
        for event in events:
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEPTH_MAX:
                # The parser takes longer for each further bracket, so this limits its time too.
                line = _line_of(event.start_mark)
                raise self._error(line, f"is nested deeper than {DEPTH_MAX} levels")
            if isinstance(event, yaml.AliasEvent):
                # A few aliases of aliases would fill all memory.
                line = _line_of(event.start_mark)
                raise self._error(line, "aliases (*name) are not allowed")

    def _check_keys(self, node: yaml.Node) -> None:
        if not isinstance(node, yaml.MappingNode):
            raise self._error(0, "the front matter must have lines of the form key: value")
        for key, _ in node.value:
            line = key.start_mark.line
            if key.value not in KEYS:
                known = ", ".join(KEYS)
                raise self._error(line, f"{key.value!r} is not a key of a request; known: {known}")
            if key.value in self._lines:
                raise self._error(line, f"{key.value!r} is there twice")
            self._lines[key.value] = line

    def _error(self, line: int, problem: str) -> RequestError:
        # Lines count from 0 within the front matter, which starts in the file's second line.
        return RequestError(self._path, line + 2, problem)

    def _error_at(self, key: str, problem: str) -> RequestError:
        return self._error(self._lines[key], f"{key}: {problem}")

    def text(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._error_at(key, f"{value!r} is not text; put it in quotation marks")
        return str(self._plain(key, value)).strip()

    def id(self, *, default: str) -> str:
        given = self.text("id")
        name = given or _NOT_IN_IDS.sub("-", default.lower()).strip("-._~")
        try:
            root = _root_id(name)
        except InvalidIdError as error:
            if given:
                raise self._error_at("id", str(error)) from error
            problem = f"no id can be made from its name ({error}); give one in the front matter"
            raise RequestError(self._path, 1, problem) from error
        return root

    def moment(self) -> str | None:
        value = self._values.get("at")
        if value is None:
            return None
        if isinstance(value, date):
            return value.isoformat()
        try:
            datetime.fromisoformat(value)
        except (TypeError, ValueError) as error:
            problem = f"{value!r} is not a date; write 2026-03-04 or 2026-03-04T10:00"
            raise self._error_at("at", problem) from error
        return str(value)

    def priority(self) -> int:
        value = self._values.get("priority", PRIORITY_DEFAULT)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= PRIORITY_MAX:
            problem = f"{value!r} is not a priority; write 0 (first) to {PRIORITY_MAX} (last)"
            raise self._error_at("priority", problem)
        return value

    def policy(self) -> dict[str, Any] | None:
        value = self._values.get("policy")
        if isinstance(value, str):
            if value not in COMPOSITIONS:
                problem = f"{value!r} is no policy; there are {', '.join(COMPOSITIONS)}"
                raise self._error_at("policy", problem)
            return {"composition": value}
        if value is None or isinstance(value, dict):
            return value and self._json("policy", value)
        raise self._error_at("policy", "write a composition's name, or axes as key: value")

    def fields(self) -> dict[str, Any]:
        value = self._values.get("fields", {})
        if not isinstance(value, dict):
            raise self._error_at("fields", "write lines of the form key: value")
        return self._json("fields", value)

    def items(self, source: str) -> list[dict[str, Any]]:
        known = {"id", "source", "type", "label", "payload"}
        found: list[dict[str, Any]] = []
        for index, given in enumerate(self._list("items", ITEMS_MAX), start=1):
            item = {"label": given} if isinstance(given, str) else given
            where = f"item {index}"
            if not isinstance(item, dict) or not isinstance(item.get("label"), str):
                raise self._error_at("items", f"{where} needs a label, or must be a plain text")
            if unknown := sorted(set(map(str, item)) - known):
                raise self._error_at("items", f"{where} has {unknown[0]!r}; known: {sorted(known)}")
            whole = {
                "id": f"item-{index}",
                "source": source,
                "type": "note",
                "payload": {},
                **self._json("items", item),
            }
            texts = all(isinstance(whole[key], str) for key in known - {"payload"})
            if not texts or not isinstance(whole["payload"], dict):
                raise self._error_at(
                    "items", f"{where}: payload must be a mapping, every other field a text"
                )
            if any(whole["id"] == other["id"] for other in found):
                raise self._error_at("items", f"two items have the id {whole['id']!r}")
            found.append(whole)
        return found

    def children(self) -> list[dict[str, Any]] | None:
        if "children" not in self._values:
            return None
        found: list[dict[str, Any]] = []
        for index, child in enumerate(self._list("children", CHILDREN_MAX), start=1):
            where = f"child {index}"
            if not isinstance(child, dict) or not isinstance(child.get("title"), str):
                raise self._error_at("children", f"{where} needs a title")
            if unknown := sorted(set(map(str, child)) - {"title", "text", "fields"}):
                raise self._error_at(
                    "children", f"{where} has {unknown[0]!r}; known: title, text, fields"
                )
            whole = {"text": "", "fields": {}, **self._json("children", child)}
            if not isinstance(whole["text"], str) or not isinstance(whole["fields"], dict):
                raise self._error_at("children", f"{where}: text must be a text, fields a mapping")
            found.append(whole)
        if not found:
            raise self._error_at("children", "the list is empty; leave it out")
        return found

    def relationship(self, children: list[dict[str, Any]] | None) -> str | None:
        value = self.text("relationship")
        if value is None:
            return None if children is None else RELATIONSHIPS[0]
        if value not in RELATIONSHIPS:
            raise self._error_at(
                "relationship", f"{value!r} is not one of {', '.join(RELATIONSHIPS)}"
            )
        if children is None:
            raise self._error_at("relationship", "it needs children; list them, or leave it out")
        return value

    def _list(self, key: str, length_max: int) -> list[Any]:
        value = self._values.get(key, [])
        if not isinstance(value, list):
            raise self._error_at(key, "write a list, each line starting with a dash")
        if len(value) > length_max:
            raise self._error_at(key, f"has {len(value)} entries, at most {length_max} are allowed")
        return value

    def _json(self, key: str, value: dict[Any, Any]) -> dict[str, Any]:
        """Return YAML data as JSON data, with dates and keys as text. Raises RequestError."""
        plain = self._plain(key, value)
        assert isinstance(plain, dict), "a mapping stays a mapping"
        return plain

    def _plain(self, key: str, value: object) -> object:
        match value:
            case None | bool() | int():
                return value
            case str() if not _SURROGATE.search(value):
                return value
            case float() if isfinite(value):
                return value
            case date():
                return value.isoformat()
            case list():
                return [self._plain(key, inner) for inner in value]
            case dict():
                return {
                    str(self._plain(key, str(name))): self._plain(key, inner)
                    for name, inner in value.items()
                }
            case _:
                raise self._error_at(key, f"JSON cannot express {value!r}")


def _line_of(mark: object) -> int:
    line = getattr(mark, "line", 0)
    return line if isinstance(line, int) else 0


def _root_id(name: str) -> str:
    if "/" in name:
        raise InvalidIdError(
            name, "a slash is only for the ids of children, which a parent creates"
        )
    return record_id(name)
