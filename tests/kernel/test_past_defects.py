"""What is refused of a table's past: renamed and retired states, schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.kernel.errors import MachineDefectError
from interlock.kernel.table import Transition
from tests.kernel.store.tables import LIFE, S, T

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"renamed": {"idle": "asking"}}, "renamed has idle, which is still a state"),
    ({"renamed": {"lazy": "idel"}}, "renamed leads lazy to idel, which has no stage"),
    (
        {"renamed": {"lazy": "slow", "slow": "idle"}},
        "renamed leads lazy to slow, and slow on: write 'lazy': 'idle'",
    ),
    (
        {"renamed": {"lazy": "asking"}, "retired": ("asking",)},
        "renamed leads lazy to asking, which is retired, so that nothing enters it",
    ),
    ({"retired": ("lazy",)}, "retired names lazy, which has no stage"),
    ({"retired": ("idle",)}, "idle is retired, and records begin there"),
    ({"retired": ("working",)}, "idle/begin leads to working, which is retired"),
    ({"schema": 0}, "schema=0 is no number of a schema"),
    ({"schema": True}, "schema=True is no number of a schema"),
    ({"migrate": lambda data, _: data}, "migrate is for data of an older schema: say schema=2"),
    ({"migrate": 3, "schema": 2}, "the machine has migrate=3: write a function"),
]


@pytest.mark.parametrize(("fields", "words"), REFUSED)
def test_what_cannot_be_of_a_past_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(MachineDefectError) as refusal:
        replace(LIFE, **fields)

    assert words in str(refusal.value)


def test_a_retired_state_needs_no_way_in() -> None:
    left = tuple(row for row in LIFE.transitions if row.target != S.GROUPING)

    assert replace(LIFE, transitions=left, retired=("grouping",)).stage("grouping")
    with pytest.raises(MachineDefectError, match="grouping is never entered"):
        replace(LIFE, transitions=left)


def test_one_retired_state_may_lead_to_another() -> None:
    rows = tuple(row for row in LIFE.transitions if row.target not in (S.GROUPING, S.POLISHING))
    into = Transition(S.GROUPING, T.POLISH, S.POLISHING)

    assert replace(LIFE, transitions=(*rows, into), retired=("grouping", "polishing"))
    with pytest.raises(MachineDefectError, match="grouping/polish leads to polishing, which is"):
        replace(LIFE, transitions=(*rows, into), retired=("polishing",))
