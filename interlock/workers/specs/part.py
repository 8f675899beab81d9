"""A part of a file that a person wrote: its value and its place, and what is read from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.store.codec import PAYLOAD_BYTES_MAX, encode
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.models import read_model
from interlock.workers.specs.node import Node
from interlock.workers.specs.problems import Location
from interlock.workers.specs.values import ID

# How an entry of a list or mapping is known, such as "step 'build'"; '' for its place there.
Called: TypeAlias = "Mapping[Any, Callable[[FilePart, Any], str]]"
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class FilePart:
    """A value of a file, where it is, and how its author knows it, such as `step 'build': limits`.

    Whoever refuses a part adds a problem to its document, which raises all of them at the end.
    """

    node: Node
    location: Location

    @property
    def value(self) -> Any:
        """The value: of one that is a list or a mapping see `entries` and `fields`."""
        return self.node.value

    @property
    def line(self) -> int:
        """The line, from 1; 0 for a part without a place."""
        return self.node.line

    @property
    def text(self) -> str:
        """A value that is no list and no mapping, as it is written."""
        return self.node.text

    @property
    def quoted(self) -> str:
        """The value as a short quotation for a person."""
        return shown(self.node.plain())

    @property
    def entries(self) -> tuple[FilePart, ...]:
        """The entries of a list; none of another value."""
        found = self.value if isinstance(self.value, list) else ()
        return tuple(
            FilePart(node, self.location.inside(index)) for index, node in enumerate(found)
        )

    @property
    def fields(self) -> dict[Any, FilePart]:
        """The fields of a mapping by their keys; none of another value."""
        found = self.value.items() if isinstance(self.value, dict) else ()
        return {key: FilePart(node, self.location.inside(str(key))) for key, node in found}

    def at(self, *steps: str | int) -> FilePart:
        """Return the part at a path of keys and of indices, which count from 0.

        A part that is not there has the value None, and the place of the part around it.
        """
        return FilePart(self.node.at(*steps), self.location.inside(*steps))

    def holding(self, value: Any) -> FilePart:
        """Return the part with another value, or with other `fields`, at the same place."""
        if isinstance(value, dict):
            value = {key: part.node for key, part in value.items()}
        return FilePart(self.node.holding(value), self.location)

    def called(self, item: str) -> FilePart:
        """Return the part as an item that its author knows by this name, such as "defaults"."""
        return FilePart(self.node, Location(self.location.problems, item))

    def refuse(self, advice: str, *, at: FilePart | None = None) -> None:
        """Add a problem of this part: what to write instead. Its place may be that of another."""
        self.location.refuse((at or self).node, advice)

    def suggestion(self, name: str, known: Collection[str]) -> str:
        """Return "; did you mean ...?" with the known name that is most similar, or ''."""
        return self.location.problems.suggestion(name, known)

    def read(
        self,
        model: type[_Model],
        context: Mapping[str, Any] | None = None,
        called: Called | None = None,
    ) -> _Model | None:
        """Return the part as its model, or None where something of it is refused.

        The names in the file are the aliases of the fields. `context` is for the model's
        validators. `called` gives, by the name of a list or mapping, a function of an entry and of
        its name or number that returns what errors call the entry, such as "step 'build'". No value
        is repeated if the model hides its input in errors.
        """
        items = {
            holder: lambda node, step, entry=entry: entry(FilePart(node, self.location), step)
            for holder, entry in (called or {}).items()
        }
        return read_model(model, self.node, self.location, context, items)

    def given(self, model: type[BaseModel]) -> dict[str, Any]:
        """Return the fields of a model that the part has, as data; {} where something is refused.

        A field that a person has left out is not among them, and one that is null is None.
        """
        found = self.read(model)
        return {} if found is None else found.model_dump(exclude_unset=True)

    def name(self, parent: str = "") -> str:
        """Return a name that can be an id, or the last part of an id below `parent`.

        It is '' if it is refused.
        """
        value = self.value
        if not isinstance(value, str):
            self.refuse(f"{self.quoted}: it is not text; put it in quotation marks")
        elif "/" in value:
            self.refuse(f"{self.quoted}: a name has no slash; remove it")
        else:
            try:
                ID.read(f"{parent}/{value}" if parent else value)
            except ValueError as refusal:
                self.refuse(str(refusal))
            else:
                return value
        return ""

    def names(self, read: Callable[[FilePart], str]) -> dict[str, FilePart]:
        """Return the names that a list has, each with its entry; a repeated name is refused.

        `read` returns the name of an entry, '' if it has refused it. Each entry is known as the
        list is. A list that is not there has none.
        """
        if self.value is None:
            return {}
        if not isinstance(self.value, list):
            self.refuse(f"{self.quoted}: write a list")
            return {}
        found: dict[str, FilePart] = {}
        for node in self.value:
            entry = FilePart(node, self.location)
            name = read(entry)
            if name in found:
                problem = f"{entry.quoted} is there twice, first in line {found[name].line}"
                entry.refuse(f"{problem}; remove one")
            elif name:
                found[name] = entry
        return found

    def items(
        self, noun: str, *, count_max: int, advice: str, parent: str = ""
    ) -> list[tuple[str, FilePart]]:
        """Return the entries of a list, each with its `name`; errors call one `step 'build'`.

        A name must be the last part of an id below `parent`, and no other item's; where it is
        refused, it is ''. The list has an item, and at most `count_max`: else `advice` is given.
        """
        if not isinstance(self.value, list) or not self.value:
            self.refuse(f"write a list of at least one {noun}")
            return []
        if len(self.value) > count_max:
            problem = f"these are {len(self.value)}, at most {count_max} are allowed"
            self.refuse(f"{problem}; {advice}")
            return []
        found, lines = [], dict[str, int]()
        for number, entry in enumerate(self.entries, 1):
            item = entry.called(f"{noun} {number}")
            name = _item_name(item, parent)
            if name:
                item = entry.called(f"{noun} {name!r}")
                if name in lines:
                    problem = f"line {lines[name]} has a {noun} of this name; choose another"
                    item.at("name").refuse(problem)
                lines.setdefault(name, item.at("name").line)
            found.append((name, item))
        return found

    def checked(
        self, make: Callable[[], dict[str, Any]], bytes_max: int = PAYLOAD_BYTES_MAX
    ) -> dict[str, Any]:
        """Return the payload that `make` makes of the part; it is {} if it is refused.

        It is refused where `make` raises pydantic's ValidationError, and if it is too large or too
        deep to be stored.
        """
        try:
            payload = make()
            encode(payload, "it", bytes_max)
        except ValidationError as refusal:
            for error in refusal.errors(include_url=False):
                advice = error["msg"].removeprefix("Value error, ")
                self.location.inside(*error["loc"]).refuse(self.node, advice)
            return {}
        except InvalidPayloadError as refusal:
            self.refuse("; ".join(refusal.problems))
            return {}
        return payload


def _item_name(item: FilePart, parent: str) -> str:
    """Return the name that an item has; '' if it is refused."""
    if not isinstance(item.value, dict):
        return ""  # that is refused where its fields are read
    if item.at("name").value is not None:
        return item.at("name").name(parent)
    item.refuse("name it: `name: <name>`", at=item.at("name"))
    return ""
