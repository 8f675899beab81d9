"""What an agent may fire at which level of trust."""

from __future__ import annotations

import pytest

from interlock.systems.tasks.machines.trust import MINIMUM_TRUST, Trust, allowed, refusal

U, P, T, E = Trust.UNTRUSTED, Trust.PROBATIONARY, Trust.TRUSTED, Trust.ELEVATED
# fmt: off
TABLE = {  # trigger: allowed as untrusted, probationary, trusted, elevated
    "claimed":         (True,  True,  True,  True),
    "started":         (True,  True,  True,  True),
    "completed":       (True,  True,  True,  True),
    "failed":          (True,  True,  True,  True),
    "blocked":         (False, True,  True,  True),
    "split":           (False, False, True,  True),
    "released":        (False, False, True,  True),
    "child_cancelled": (False, False, False, True),
}
# fmt: on
CELLS = [(lv, act, cell) for act, row in TABLE.items() for lv, cell in zip(Trust, row, strict=True)]
NOBODYS = ["approved", "closed", "", "CLAIMED"]


def test_the_table_covers_exactly_the_triggers_of_an_agent() -> None:
    assert set(MINIMUM_TRUST) == set(TABLE)
    assert list(Trust) == [U, P, T, E]


@pytest.mark.parametrize(("level", "trigger", "expected"), CELLS)
def test_each_cell_of_the_table_is_decided_and_explained(
    *, level: Trust, trigger: str, expected: bool
) -> None:
    lowest = next(lv for lv, cell in zip(Trust, TABLE[trigger], strict=True) if cell)

    assert allowed(level, trigger) is expected
    assert MINIMUM_TRUST[trigger] is lowest
    assert bool(refusal(level, trigger)) is not expected


def test_a_refusal_names_the_level_that_would_do() -> None:
    assert refusal(U, "split") == ("split needs the trust level trusted; this agent's is untrusted")


@pytest.mark.parametrize("trigger", NOBODYS)
def test_a_trigger_outside_the_table_is_no_agents_to_fire(trigger: str) -> None:
    assert not any(allowed(level, trigger) for level in Trust)
    assert refusal(E, trigger) == f"no level of trust lets an agent fire {trigger}"
