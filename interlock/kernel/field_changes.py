"""Compares the fields of data and of payloads, also those of the models inside of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from interlock.kernel.machine import Machine
from interlock.kernel.table import ACTORS, PERSON, PRODUCER
from interlock.kernel.table_change import Outline, Outlook, TableChange

FIT = "the data of all that are there fit"


@dataclass(frozen=True, slots=True)
class _Field:
    """A field that differs, by its path, such as `items.price`."""

    path: str
    how: Literal["gone", "typed", "new", "demanded", "optional"]
    types: str = ""

    @property
    def top(self) -> str:
        """The field of the whole that it is in."""
        return self.path.partition(".")[0]


def data_changes(old: Outline, new: Outline, machine: Machine) -> Iterator[TableChange]:
    """Yield what differs between the data of two tables."""
    if new["schema"] < old["schema"]:
        what = f"the data were of schema {old['schema']}, and are of schema {new['schema']} here"
        cure = "start the newer code, or `interlock apply --back`"
        yield TableChange(Outlook.STRANDED, what, cure, None)
    elif new["schema"] > old["schema"] and machine.migrate:
        what = f"the data are of schema {new['schema']} now"
        yield TableChange(Outlook.MOVED, what, "migrate= makes older ones newer", None)
        return
    if old.get("data") is None or new.get("data") is None:
        return
    cure = f"say schema={machine.schema + 1} and migrate= with a function from the older data"
    for each in _differing(old["data"], new["data"]):
        what, means, fitting = _of_data(each), cure, FIT
        if each.how == "optional":
            yield TableChange(Outlook.GOING_ON, what, "older ones have its default", None)
            continue
        if each.how == "gone":
            fitting = "what they have there is dropped when their data change"
        if each.how in ("new", "demanded"):
            means = f"give it a default, or {cure}"
        yield TableChange(Outlook.STRANDED, what, means, None, each.top, fitting)


def payload_changes(old: Outline, new: Outline) -> Iterator[TableChange]:
    """Yield what differs between the payloads of triggers that both tables have."""
    before = {row["trigger"] for row in old["rows"]}
    by: dict[str, set[str]] = {}
    for row in new["rows"]:
        by.setdefault(row["trigger"], set()).update(row["by"])
    for trigger in [each for each in by if each in before]:
        fields, found = old["payloads"].get(trigger, {}), new["payloads"].get(trigger, {})
        states = [row["source"] for row in old["rows"] if row["trigger"] == trigger]
        is_sent = bool(by[trigger] & {PERSON, PRODUCER})
        if not is_sent and by[trigger] <= {*ACTORS}:
            continue  # the sweeps make it when they fire it
        whose = "what is under way" if is_sent else "an outcome that is kept"
        for each in _differing(fields, found):
            what, how = _of_payload(trigger, each)
            means = f"{whose} {how} is refused"
            if each.how != "optional":
                yield TableChange(
                    Outlook.GOING_ON, what, means, tuple(dict.fromkeys(map(str, states)))
                )


def _differing(old: Outline, new: Outline, path: str = "") -> Iterator[_Field]:
    for name, before in old.items():
        here, after = f"{path}{name}", new.get(name)
        if after is None:
            yield _Field(here, "gone")
            continue
        if not {*before["type"].split(" | ")} <= {*after["type"].split(" | ")}:
            yield _Field(here, "typed", f"was {before['type']}, and is {after['type']}")
        if after["required"] and not before["required"]:
            yield _Field(here, "demanded")
        inner = after.get("models", {})
        for model, fields in before.get("models", {}).items():
            if model in inner:
                yield from _differing(fields, inner[model], f"{here}.")
    for name, field in new.items():
        if name not in old:
            yield _Field(f"{path}{name}", "new" if field["required"] else "optional")


def _of_data(field: _Field) -> str:
    return {
        "gone": f"the data have no field {field.path} any more",
        "typed": f"{field.path} {field.types}",
        "new": f"the data have a new field {field.path} without a default",
        "demanded": f"{field.path} has no default any more",
        "optional": f"the data have a new field {field.path}",
    }[field.how]


def _of_payload(trigger: str, field: _Field) -> tuple[str, str]:
    match field.how:
        case "gone":
            return f"{trigger} has no {field.path} any more", "with it"
        case "typed":
            return f"{field.path} of {trigger} {field.types}", "and does not fit that"
        case _:
            return f"{trigger} needs {field.path}", "without it"
