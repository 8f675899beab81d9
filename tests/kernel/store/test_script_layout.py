"""A script and its callers have the positions of keys and arguments from one list of names."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from interlock.kernel.store.script_layout import ScriptLayout, layout_in
from interlock.kernel.store.scripts import layout_of

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
    found = layout_in(SCRIPT)
    assert found is not None
    return found


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


def test_a_script_whose_comment_lists_no_names_has_no_layout() -> None:
    prose = SCRIPT.replace("record, log,", "record, log of it,")

    assert layout_in(prose) is None
    assert layout_in(f"{SCRIPT}local record = KEYS[1]") is None
    with pytest.raises(AssertionError, match=r"claim\.lua reads positions"):
        layout_of("claim")
