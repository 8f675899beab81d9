"""A script and its callers have the positions of keys and arguments from one list of names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import redis

from interlock.kernel.store import scripts
from interlock.kernel.store.script_layout import ScriptLayout, layout_in
from interlock.kernel.store.scripts import layout_of, source_of

SCRIPT = """\
-- Returns what it is given.
-- KEYS     record, log, chain..., queues...
-- ARGV     id, event*, ends?, shares?, timers...,
--          messages*...
-- Returns  what it is given
return cjson.encode({
  record, log, chain, queues, plan.id, plan.event, plan.ends or false, plan.shares or false,
  plan.timers, plan.messages
})
"""
PLAN = {"id": "x", "event": ""}
KEYS = {"record": "{a}r", "log": "{a}log"}


def layout() -> ScriptLayout:
    return layout_in(SCRIPT)


def seen(client: redis.Redis, keys: dict[str, Any], plan: dict[str, Any]) -> Any:
    """Return what the script sees of these keys and arguments."""
    names, values = layout().arranged(keys, plan)
    return client.eval(f"{layout().prologue}\n{SCRIPT}", len(names), *names, *values)


def test_a_script_sees_each_value_under_its_name(client: redis.Redis) -> None:
    keys = KEYS | {"chain": ["{a}1", "{a}2"], "queues": ["{a}q"]}
    plan = {"id": "x", "event": b"\xc3\xa9", "ends": True, "shares": {"left": "l"}}
    plan |= {"timers": ["t", 5], "messages": [b"m", b"n"]}

    assert seen(client, keys, plan).decode() == (
        '["{a}r","{a}log",["{a}1","{a}2"],["{a}q"],"x","\u00e9",true,{"left":"l"},["t",5],'
        '["m","n"]]'
    )


def test_what_is_marked_may_be_missing(client: redis.Redis) -> None:
    found = seen(client, KEYS, {"id": "x", "event": ""})

    assert found == b'["{a}r","{a}log",{},{},"x","",false,false,{},{}]'


@pytest.mark.parametrize(
    ("keys", "plan"),
    [
        ({"record": "{a}r"}, PLAN),
        (KEYS, {"event": ""}),
        (KEYS, {"id": "x"}),
        (KEYS | {"holds": "{a}h"}, PLAN),
        (KEYS, PLAN | {"end": True}),
    ],
    ids=["no key", "no argument", "no long text", "an unknown key", "an unknown argument"],
)
def test_a_name_that_does_not_fit_is_refused(keys: dict[str, Any], plan: dict[str, Any]) -> None:
    with pytest.raises(KeyError):
        layout().arranged(keys, plan)


@pytest.mark.parametrize(
    "script",
    [
        SCRIPT.replace("record, log,", "record, log of it,"),
        SCRIPT.replace("-- ARGV ", "-- It takes "),
        f"{SCRIPT}local record = KEYS[1]",
        f"{SCRIPT}return unpack(ARGV)",
    ],
    ids=["prose", "no arguments", "a position", "all arguments"],
)
def test_a_script_without_names_is_refused(script: str) -> None:
    with pytest.raises(ValueError, match="keys and arguments are not by name in: -- Returns what"):
        layout_in(script)


def test_every_script_has_its_keys_and_arguments_by_name_and_uses_each() -> None:
    names = [path.stem for path in Path(scripts.__file__).with_name("lua").glob("*.lua")]

    assert len(names) > 50
    for name in names:
        assert names_without_use(name) == [], name


def names_without_use(name: str) -> list[str]:
    """Return the keys and arguments that a script's comment lists, and the script never uses."""
    layout, source = layout_of(name), source_of(name).replace(layout_of(name).prologue, "")
    code = re.sub(r"--.*", "", source)
    short = (*layout.required, *layout.optional, *layout.lists)
    args = [f"plan.{arg}" for arg in (*short, *layout.long, *layout.long_lists)]
    known = [*layout.keys, *layout.key_lists, *args]
    return [one for one in known if not re.search(rf"\b{re.escape(one)}\b", code)]
