"""Makes data of earlier versions of the thread's table fit the present one."""

from __future__ import annotations

from typing import Any

from interlock.system.tables import RecordData as Data

RENAMED = {"hands_off": "ask_every_step"}  # policies of schema 1, by their names in schema 2
# The data that may list parts of a matter, each with a policy of its own by name. The policy of the
# thread itself is kept as its axes, which have no name.
WITH_PARTS = ("given", "proposals", "children")


def with_renamed_policies(data: Data, schema: int) -> Data:
    """Return data in which the parts of the thread name their policies as schema 2 does."""
    del schema  # there is one that is older
    renamed = {name: _renamed(data[name]) for name in WITH_PARTS if name in data}
    if isinstance(parts := renamed.get("children"), list):
        renamed["children"] = [_part(each) for each in parts]
    return {**data, **renamed}


def _renamed(value: Any) -> Any:
    """Return a value in which every list `children` has parts with the present names."""
    if isinstance(value, list):
        return [_renamed(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _renamed(each) for name, each in value.items()}
    if isinstance(parts := found.get("children"), list):
        found["children"] = [_part(each) for each in parts]
    return found


def _part(part: Any) -> Any:
    if not isinstance(part, dict) or "policy" not in part:
        return part
    policy = part["policy"]
    if isinstance(policy, dict) and "composition" in policy:
        name = policy["composition"]
        return {**part, "policy": {**policy, "composition": RENAMED.get(name, name)}}
    return {**part, "policy": RENAMED.get(policy, policy) if isinstance(policy, str) else policy}
