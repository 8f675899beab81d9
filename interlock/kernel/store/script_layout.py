"""The keys and arguments of a script by name, as the comment at its head lists them.

A script and its callers have names and positions from that comment alone, so they cannot disagree.
A script gets a local variable for each key, and a table `plan` with the arguments. A list of names
is `none`, or each name may have a mark:

    name        a key, or an argument
    name?       an argument that is missing in most calls, or a flag: nil where it is not given
    name...     a list of keys or of values, which may be empty
    name*       a text that may be long, or bytes; all others are sent in one JSON object
    name*...    a list of such texts
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

_CONTRACT = re.compile(r"^-- KEYS +(.*?)^-- ARGV +(.*?)^-- Returns ", re.MULTILINE | re.DOTALL)
_POSITION = re.compile(r"#(?:KEYS|ARGV)|(?:KEYS|ARGV)[\[,)]")
_NAME = re.compile(r"([a-z_]+)(\?|\.\.\.|\*\.\.\.|\*|)")
_NAMES = re.compile(rf"{_NAME.pattern}(?:,\s+{_NAME.pattern})*\s*")
_NONE = "none"
_OPTIONAL, _LIST, _LONG, _LONG_LIST = "?", "...", "*", "*..."
_PACKED = json.JSONEncoder(separators=(",", ":")).encode
# Lua takes no more than 8,000 values at once, so a list is not unpacked.
_LIST_AT = """\
local NONE = {}
local function list_at(values, position, length)
  local next_position = position + length
  if length == 0 then
    return NONE, next_position
  end
  local found = {}
  for n = position, next_position - 1 do
    found[#found + 1] = values[n]
  end
  return found, next_position
end"""


class NamedKeys(Protocol):
    """Keys by name. Iteration gives the names that a script has to take."""

    def __iter__(self) -> Iterator[str]: ...
    def __getitem__(self, name: str, /) -> Any: ...
    def get(self, name: str, default: Any, /) -> Any:
        """Return a list of keys; `default` where it is not given."""


@dataclass(frozen=True)
class ScriptLayout:
    """Which keys and arguments a script takes: of each kind those that its comment names, in order.

    The first argument is the plan, which also has the length of each list that is not in it.
    """

    keys: tuple[str, ...]
    key_lists: tuple[str, ...]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    lists: tuple[str, ...]
    long: tuple[str, ...]
    long_lists: tuple[str, ...]

    @cached_property
    def _known(self) -> frozenset[str]:
        short = (*self.required, *self.optional, *self.lists)
        return frozenset((*self.keys, *self.key_lists, *short, *self.long, *self.long_lists))

    def arranged(self, keys: NamedKeys, plan: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
        """Return keys and arguments as the script takes them.

        Lists and what is optional may be missing. Raises KeyError where anything else is missing,
        and for what the script does not name.
        """
        if not self._known.issuperset(keys) or not self._known.issuperset(plan):
            raise KeyError(*sorted({*keys, *plan} - self._known))
        names = [keys[name] for name in self.keys]
        key_lists = [keys.get(name, ()) for name in self.key_lists]
        long_lists = [plan.get(name, ()) for name in self.long_lists]
        for found in key_lists:
            names += found
        short = {name: plan[name] for name in self.required}
        for name in (*self.optional, *self.lists):
            if value := plan.get(name):
                short[name] = value
        short["lengths"] = [*map(len, (*key_lists, *long_lists))]
        values = [_PACKED(short), *(plan[name] for name in self.long)]
        for found in long_lists:
            values += found
        return names, values

    @property
    def prologue(self) -> str:
        """The lines of Lua that give the script its variables."""
        long_lists = [f"plan.{name}" for name in self.long_lists]
        taken = len(self.key_lists)
        variables = f"local {', '.join(self.keys)} = unpack(KEYS, 1, {len(self.keys)})"
        return "\n".join(
            [
                *([_LIST_AT] if self.lists or self.key_lists or self.long_lists else []),
                *([variables] if self.keys else []),
                "local plan = cjson.decode(ARGV[1])",
                *(f"plan.{name} = plan.{name} or NONE" for name in self.lists),
                *(f"plan.{name} = ARGV[{n}]" for n, name in enumerate(self.long, 2)),
                *(f"local {name}" for name in self.key_lists),
                *_lists_of("KEYS", self.key_lists, len(self.keys), 0),
                *_lists_of("ARGV", long_lists, len(self.long) + 1, taken),
            ]
        )


def layout_in(script: str) -> ScriptLayout:
    """Return the layout that a script's comment lists.

    Raises ValueError if the comment lists something else, or if the script reads positions.
    """
    contract = _CONTRACT.search(script)
    texts = [part.replace("\n--", "").strip() for part in contract.groups()] if contract else []
    if not texts or _POSITION.search(script) or not all(map(_NAMES.fullmatch, texts)):
        raise ValueError(f"keys and arguments are not by name in: {script[:200]}")
    keys, args = ([] if text == _NONE else _NAME.findall(text) for text in texts)

    def marked(named: Iterable[tuple[str, str]], mark: str) -> tuple[str, ...]:
        return tuple(name for name, its in named if its == mark)

    return ScriptLayout(
        keys=marked(keys, ""),
        key_lists=marked(keys, _LIST),
        required=marked(args, ""),
        optional=marked(args, _OPTIONAL),
        lists=marked(args, _LIST),
        long=marked(args, _LONG),
        long_lists=marked(args, _LONG_LIST),
    )


def _lists_of(source: str, names: Sequence[str], before: int, taken: int) -> list[str]:
    """Return the lines that read lists, one after the other.

    `before` is the number of values before them, `taken` that of the lists whose length is named
    before theirs.
    """
    position = f"next_in_{source}"
    lines = [f"local {position} = {before + 1}"]
    for n, name in enumerate(names, taken + 1):
        lines.append(f"{name}, {position} = list_at({source}, {position}, plan.lengths[{n}])")
    return lines
