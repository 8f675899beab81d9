"""Effects that are declared quick only read and write the store."""

from __future__ import annotations

import inspect

import pytest

from interlock.kernel.machines import MACHINES
from interlock.workers.systems import handlers

EFFECTS = {effect for machine in MACHINES.values() for effect in machine.effects.values()}
QUICK = sorted(effect.name for effect in EFFECTS if effect.quick)


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_effect_uses_no_files_and_waits_for_no_process(name: str) -> None:
    assert not any(effect.local for effect in EFFECTS if effect.name == name)
    mine = [handler for task, handler in handlers().items() if task.partition(".")[2] == name]
    assert mine
    assert not any(map(inspect.iscoroutinefunction, mine))
