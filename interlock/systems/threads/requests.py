"""Reads a request that a person wrote, Markdown with front matter, into the payload of a thread.

A file with mistakes is refused with the place of each; nothing is guessed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import date, datetime
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from interlock import CallError, Children
from interlock.system.files import ID, PRIORITY, Document, FileError, Required, ValueKind
from interlock.system.tables import PRIORITY_DEFAULT
from interlock.systems.threads.machines.autonomy import COMPOSITIONS
from interlock.systems.threads.machines.thread.payloads import REQUEST_HOST

BYTES_MAX = 256 * 1024
ITEMS_MAX = 1000
_NOT_IN_IDS = re.compile(r"[^a-z0-9._~]+")


class RequestsError(CallError):
    """Some of several files are no valid requests. None of them was submitted."""

    def __init__(self, faults: Sequence[FileError]) -> None:
        several = f"; nothing was submitted, {len(faults)} files are wrong" * (len(faults) > 1)
        super().__init__("\n".join(map(str, faults)) + several)
        self.faults = tuple(faults)


def _plain(value: Any) -> Any:
    """Return YAML data as JSON data, with dates and keys as text."""
    match value:
        case dict():
            return {_plain(str(key)): _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case date():
            return value.isoformat()
        case float() if not isfinite(value):
            raise ValueError(f"JSON cannot express {value!r}")
        case str() if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ValueError(f"JSON cannot express {value!r}")
        case _:
            return value


def _stripped(text: Any) -> Any:
    return text.strip() if isinstance(text, str) else text


def _id(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    name = text.strip()
    if name and (problem := _problem_of_root_id(name)):
        raise ValueError(problem.replace(repr(name), "it", 1))
    return name


def _moment(value: Any) -> Any:
    if value is None or isinstance(value, date):
        return value and value.isoformat()
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise ValueError("it is not a date; write 2026-03-04 or 2026-03-04T10:00") from error
    return value


def _policy(value: Any) -> Any:
    if isinstance(value, str):
        if value not in COMPOSITIONS:
            raise ValueError(f"it is no policy; there are {', '.join(COMPOSITIONS)}")
        return {"composition": value}
    if value is None or isinstance(value, dict):
        return value and _plain(value)
    raise ValueError("write a composition's name, or axes as key: value")


def _item(value: Any) -> Any:
    return {"label": value} if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_stripped)]
PlainText = Annotated[str, BeforeValidator(_plain)]
PlainData = Annotated[dict[str, Any], BeforeValidator(_plain)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class RequestItem(_Part):
    """Something known that belongs to the matter."""

    label: Annotated[str, Required("write its label, or only a text")]
    id: PlainText = ""
    source: PlainText = ""
    type: PlainText = "note"
    payload: PlainData = {}

    def known(self, number: int, source: str) -> dict[str, Any]:
        """Return the item with an id and a source, by default `item-` and its number, from 1."""
        given = {"id": f"item-{number}", "source": source}
        return self.model_dump() | given | self.model_dump(exclude_unset=True)


class RequestChild(_Part):
    """A part of the matter."""

    title: Annotated[str, Required("write its title")]
    text: PlainText = ""
    fields: PlainData = {}


class FrontMatter(_Part):
    """The front matter of a request; without an id it has that of its file's name."""

    id: Annotated[str | None, BeforeValidator(_id)] = None
    title: Text | None = None
    source: Text | None = None
    at: Annotated[str | None, BeforeValidator(_moment)] = None
    priority: Annotated[int, PRIORITY] = PRIORITY_DEFAULT
    policy: Annotated[dict[str, Any] | None, BeforeValidator(_policy)] = None
    items: Annotated[
        list[Annotated[RequestItem, BeforeValidator(_item)]], Field(max_length=ITEMS_MAX)
    ] = []
    fields: PlainData = {}
    children: Annotated[
        list[RequestChild], Field(max_length=Children.NUMBER_MAX), ValueKind.filled_list("child")
    ] = []
    relationship: Annotated[
        Literal["decompose", "group", "singular"] | None, BeforeValidator(_stripped)
    ] = None

    @field_validator("items")
    @classmethod
    def _differ(cls, items: list[RequestItem]) -> list[RequestItem]:
        names = [item.known(number, "")["id"] for number, item in enumerate(items, start=1)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two items have the id {name!r}; choose another")
        return items

    @field_validator("relationship")
    @classmethod
    def _has_children(cls, relationship: str | None, info: ValidationInfo) -> str | None:
        if relationship and not info.data.get("children", True):
            raise ValueError("it needs children; list them, or leave it out")
        return relationship


def request_files(path: Path) -> tuple[Path, ...]:
    """Return the request files of a path: the file itself, or the *.md files directly in a folder.

    Raises FileError for a folder without any, or for a file that is not Markdown or not there.
    """
    if not path.is_dir():
        if path.suffix != ".md":
            said = "a request is a Markdown file, *.md" if path.exists() else "it does not exist"
            raise FileError.of_one(path, said)
        return (path,)
    found = tuple(sorted(file for file in path.glob("*.md") if not file.name.startswith(".")))
    if not found:
        raise FileError.of_one(path, "there is no request (*.md) in this folder")
    return found


def read_request(path: Path, *, host: str) -> dict[str, Any]:
    """Read one file: id, inciting, items, policy, children, relationship, priority.

    The id is the file's name as a slug, unless the front matter gives one. `inciting.fields` has
    the file's path and sha256, and this computer's name, its `host`, beside the `fields` of the
    front matter. Raises FileError with all mistakes.
    """
    advice = "put what is long into other files"
    document = Document.read(path, bytes_max=BYTES_MAX, advice=advice)
    matter = document.model(FrontMatter)
    title, text = _title_and_text(matter.title, document.body)
    source = matter.source or "inbox"
    return {
        "id": matter.id or _id_of_name(path),
        "inciting": {
            "source": source,
            "title": title,
            "text": text,
            "at": matter.at,
            "fields": {
                **matter.fields,
                REQUEST_HOST: host,
                "request_path": str(path.resolve()),
                "request_sha256": hashlib.sha256(document.content).hexdigest(),
            },
        },
        "items": [item.known(number, source) for number, item in enumerate(matter.items, start=1)],
        "policy": matter.policy,
        "children": [child.model_dump() for child in matter.children] or None,
        "relationship": matter.relationship or ("decompose" if matter.children else None),
        "priority": matter.priority,
    }


def _id_of_name(path: Path) -> str:
    name = _NOT_IN_IDS.sub("-", path.stem.lower()).strip("-._~")
    if why := _problem_of_root_id(name):
        problem = f"no id can be made from its name ({why}); give one in the front matter"
        raise FileError.of_one(path, problem, 1)
    return name


def _title_and_text(given: str | None, body: str) -> tuple[str, str]:
    """Return title and text; the title is the given one, or the first heading or line."""
    text = body.strip()
    first, _, rest = text.partition("\n")
    if given is not None:
        return given, text
    if first.startswith("# "):
        return first[2:].strip(), rest.strip()
    return first.strip()[:120], text


def _problem_of_root_id(name: str) -> str:
    if "/" in name:
        why = "a slash is only for the ids of children, which a parent creates"
        return f"{name!r} cannot be an id: {why}"
    try:
        ID.read(name)
    except ValueError as refusal:
        return str(refusal)
    return ""
