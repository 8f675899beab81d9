"""The keys and arguments of a script by name, as the comment at its head lists them.

A script and its callers have the positions from that comment alone, so they cannot disagree. A
script whose comment lists names gets a local variable for each key, and a table `plan` with the
arguments:

    name        a key, or an argument, which the script sees as a text
    name?       an argument that is true or false
    name{}      an argument that is an object or nothing: few calls have it, so it is JSON
    name...     a list of keys or of texts, which may be empty
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_CONTRACT = re.compile(r"^-- KEYS +(.*?)^-- ARGV +(.*?)^-- Returns ", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"([a-z_]+)(\?|\{\}|\.\.\.|)")
_NAMES = re.compile(rf"{_NAME.pattern}(?:,\s+{_NAME.pattern})*\s*")
_FLAG, _OBJECT, _LIST = "?", "{}", "..."
_PACKED = json.JSONEncoder(separators=(",", ":")).encode
_READ = {
    "": "ARGV[{0}]",
    _FLAG: "ARGV[{0}] == '1'",
    _OBJECT: "ARGV[{0}] ~= '' and cjson.decode(ARGV[{0}])",
}
# Lua takes no more than 8,000 values at once, so a list is not unpacked.
_LIST_AT = """\
local NONE = {}
local function list_at(values, position, length)
  if length == '0' then
    return NONE, position
  end
  local next_position = position + length
  local found = {}
  for n = position, next_position - 1 do
    found[#found + 1] = values[n]
  end
  return found, next_position
end"""


@dataclass(frozen=True)
class ScriptLayout:
    """Which keys and arguments a script takes: of each kind those that its comment names, in order.

    Before the lists of arguments it is given the length of each list.
    """

    keys: tuple[str, ...]
    key_lists: tuple[str, ...]
    texts: tuple[str, ...]
    flags: tuple[str, ...]
    objects: tuple[str, ...]
    arg_lists: tuple[str, ...]

    @cached_property
    def _known(self) -> frozenset[str]:
        args = (*self.texts, *self.flags, *self.objects, *self.arg_lists)
        return frozenset((*self.keys, *self.key_lists, *args))

    def arranged(
        self, keys: Mapping[str, Any], plan: Mapping[str, Any]
    ) -> tuple[list[str], list[Any]]:
        """Return keys and arguments in the order in which the script takes them.

        What has a mark may be missing. Raises KeyError where anything else is missing, and for
        what the script does not name.
        """
        if not self._known.issuperset(keys) or not self._known.issuperset(plan):
            raise KeyError(*sorted({*keys, *plan} - self._known))
        names = [keys[name] for name in self.keys]
        values = [plan[name] for name in self.texts]
        values += ["1" if plan.get(name) else "" for name in self.flags]
        values += [_PACKED(plan[name]) if plan.get(name) else "" for name in self.objects]
        key_lists = [keys.get(name, ()) for name in self.key_lists]
        arg_lists = [plan.get(name, ()) for name in self.arg_lists]
        values += map(len, key_lists)
        values += map(len, arg_lists)
        for found in key_lists:
            names += found
        for found in arg_lists:
            values += found
        return names, values

    @property
    def prologue(self) -> str:
        """The lines of Lua that give the script its variables."""
        marks = [(name, "") for name in self.texts] + [(name, _FLAG) for name in self.flags]
        marks += [(name, _OBJECT) for name in self.objects]
        read = [f"  {name} = {_READ[mark].format(n)}," for n, (name, mark) in enumerate(marks, 1)]
        lengths = len(marks) + 1
        first = lengths + len(self.key_lists) + len(self.arg_lists)
        arg_lists = [f"plan.{name}" for name in self.arg_lists]
        return "\n".join(
            [
                _LIST_AT,
                f"local {', '.join(self.keys)} = unpack(KEYS, 1, {len(self.keys)})",
                "local plan = {",
                *read,
                "}",
                *(f"local {name}" for name in self.key_lists),
                *_lists_of("KEYS", self.key_lists, len(self.keys) + 1, lengths),
                *_lists_of("ARGV", arg_lists, first, lengths + len(self.key_lists)),
            ]
        )


def layout_in(script: str) -> ScriptLayout | None:
    """Return the layout that a script's comment lists; None if the script reads positions."""
    contract = _CONTRACT.search(script)
    texts = [part.replace("\n--", "") for part in contract.groups()] if contract else []
    if not texts or "KEYS[" in script or not all(map(_NAMES.fullmatch, texts)):
        return None
    keys, args = map(_NAME.findall, texts)

    def marked(named: Iterable[tuple[str, str]], mark: str) -> tuple[str, ...]:
        return tuple(name for name, its in named if its == mark)

    return ScriptLayout(
        keys=marked(keys, ""),
        key_lists=marked(keys, _LIST),
        texts=marked(args, ""),
        flags=marked(args, _FLAG),
        objects=marked(args, _OBJECT),
        arg_lists=marked(args, _LIST),
    )


def _lists_of(source: str, names: Sequence[str], start: int, lengths: int) -> list[str]:
    """Return the lines that read lists one after the other, from a position on."""
    position = f"next_in_{source}"
    lines = [f"local {position} = {start}"]
    for number, name in enumerate(names, lengths):
        lines.append(f"{name}, {position} = list_at({source}, {position}, ARGV[{number}])")
    return lines
