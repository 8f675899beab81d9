"""A type checker knows which fields a codon has in which state.

`codon_reads.py` beside this file reads each field in each state. Where a state does not have the
field, the file tells the type checker to ignore one error there; `make check` fails when that
error does not come, and when another one does. Here the file itself is compared with the fields.
To write it anew: `python -m tests.systems.runs.machines.test_codon_types`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.systems.runs.machines.codons import STATES, fields

READS = Path(__file__).with_name("codon_reads.py")
TYPES = {state: f"{state.title().replace('_', '')}Codon" for state in STATES}
IMPORTED = "".join(f"    {name},\n" for name in sorted(("Codon", *TYPES.values())))
BEGIN = f'''"""Reads of codons that the type checker allows, and such that it refuses.

`test_codon_types.py` writes this file and says why.
"""

from __future__ import annotations

from typing import assert_never

from interlock.systems.runs.machines.codon.names import State
from interlock.systems.runs.machines.codon_types import (
{IMPORTED})


def cost_in_any_state(codon: Codon) -> object:
    return codon.current_cost  # type: ignore[union-attr]


def after_asking_for_the_state(codon: Codon) -> int:
    if codon.status is State.RUNNING:
        return codon.current_cost
    if codon.status is State.COMPLETED:
        return codon.final_cost + codon.exit_code
    if isinstance(codon, FailedCodon | SkippedCodon):
        return codon.partial_cost
    return codon.start_time


def after_asking_for_another_state(codon: Codon) -> object:
    if codon.status is State.COMPLETED:
        return codon.current_cost  # type: ignore[attr-defined]
    return codon.start_time
'''
UNKNOWN_FIELD = "  # type: ignore[attr-defined]"
FORGOTTEN_STATE = "  # type: ignore[arg-type]"


def read(type_: str, name: str, of: Iterable[str], wrong: Iterable[str] = ()) -> str:
    """Return a function that reads these fields, and those that the type does not have."""
    lines = dict.fromkeys(of, "") | dict.fromkeys(wrong, UNKNOWN_FIELD)
    listed = "".join(f"        codon.{field},{lines[field]}\n" for field in sorted(lines))
    return f"def {name}(codon: {type_}) -> list[object]:\n    return [\n{listed}    ]\n"


def reads() -> Iterator[str]:
    """Yield functions that read every field of any state in every state."""
    has = {state: set.union(*fields(state)) for state in STATES}
    everywhere, anywhere = set.intersection(*has.values()), set.union(*has.values())
    yield read("Codon", "fields_of_any_state", everywhere)
    for state in STATES:
        wrong = anywhere - has[state]
        yield read(TYPES[state], f"fields_of_{state}", has[state] - everywhere, wrong)


def none_left() -> Iterator[str]:
    """Yield functions that say that there are these states and no others."""
    patterns = "\n            | ".join(f"{TYPES[state]}()" for state in STATES)
    yield (
        "def in_all_states(codon: Codon) -> None:\n    match codon:\n"
        f"        case (\n            {patterns}\n        ):\n            return\n"
        "        case _:\n            assert_never(codon)\n"
    )
    for state in STATES:
        yield (
            f"def in_all_states_but_{state}(codon: Codon) -> None:\n"
            f"    if isinstance(codon, {TYPES[state]}):\n"
            f"        assert_never(codon){FORGOTTEN_STATE}\n"
        )


def text() -> str:
    return "\n\n".join((BEGIN, *reads(), *none_left()))


def test_every_field_is_read_in_every_state_before_the_type_checker() -> None:
    assert READS.read_text("utf-8") == text()


if __name__ == "__main__":
    READS.write_text(text(), "utf-8")
