"""A type checker knows which fields a codon has in which state."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernel.runs.codons import STATES, fields

ROOT = Path(__file__).resolve().parents[3]
TYPES = {state: f"{state.title().replace('_', '')}Codon" for state in STATES}
IMPORTS = f"""
from typing import assert_never

from interlock.kernel.machines.runs.codon_types import Codon, {", ".join(TYPES.values())}
from interlock.kernel.machines.runs.codon.names import State
"""
FAULT = re.compile(
    r"^(?:.*/)?(?P<file>\w+)\.py:(?P<line>\d+): error: "
    r"(?P<message>.*?)(?:; maybe .*)?  \[(?P<code>[a-z-]+)\]$"
)
Found = dict[str, dict[int, str]]
READ_ANYWHERE = """
def cost(codon: Codon) -> object:
    return codon.current_cost
"""
NARROWED = """
def handled(codon: Codon) -> int:
    if codon.status is State.RUNNING:
        return codon.current_cost
    if codon.status is State.COMPLETED:
        return codon.final_cost + codon.exit_code
    if isinstance(codon, FailedCodon | SkippedCodon):
        return codon.partial_cost
    return codon.start_time
"""
NOT_NARROWED = """
def handled(codon: Codon) -> object:
    if codon.status is State.COMPLETED:
        return codon.current_cost
    return codon.start_time
"""


def every_read() -> tuple[str, dict[int, str]]:
    """Read every field in every state; return that, and by line which of it is wrong."""
    names = sorted({name for state in STATES for part in fields(state) for name in part})
    lines, wrong = IMPORTS.splitlines(), {}
    for state in STATES:
        lines.append(f"def of_{state}(codon: {TYPES[state]}) -> None:")
        for name in names:
            lines.append(f"    print(codon.{name})")
            if name not in set.union(*fields(state)):
                wrong[len(lines)] = f'"{TYPES[state]}" has no attribute "{name}" [attr-defined]'
    return "\n".join(lines), wrong


def matched(*states: str) -> str:
    """Return a function that says something of a codon in these states, and claims to be done."""
    cases = "".join(
        f"        case {TYPES[state]}():\n            return {number}\n"
        for number, state in enumerate(states)
    )
    return f"\ndef number(codon: Codon) -> int:\n    match codon:\n{cases}    assert_never(codon)\n"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Return the findings of one call of the type checker for all snippets, by file and line."""
    folder = tmp_path_factory.mktemp("snippets")
    snippets = {
        "every": every_read()[0],
        "anywhere": IMPORTS + READ_ANYWHERE,
        "narrowed": IMPORTS + NARROWED,
        "not_narrowed": IMPORTS + NOT_NARROWED,
        "all_states": IMPORTS + matched(*STATES),
        **{f"without_{one}": IMPORTS + matched(*others(one)) for one in STATES},
    }
    for name, text in snippets.items():
        folder.joinpath(f"{name}.py").write_text(text, "utf-8")
    config = ["--no-pretty", "--no-error-summary", "--hide-error-context"]
    # From where the project is checked, so that what is known of it already is used.
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", *config, *(folder / f"{name}.py" for name in snippets)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    faults: Found = {name: {} for name in snippets}
    for line in ran.stdout.splitlines():
        fault = FAULT.match(line)
        assert fault, line
        faults[fault["file"]][int(fault["line"])] = f"{fault['message']} [{fault['code']}]"
    return faults


def others(state: str) -> list[str]:
    return [one for one in STATES if one != state]


def test_a_field_that_a_state_does_not_have_is_not_read_there(found: Found) -> None:
    expected = every_read()[1]

    assert found["every"] == expected
    messages = set(expected.values())
    assert '"PreparingCodon" has no attribute "current_cost" [attr-defined]' in messages
    assert '"CompletedCodon" has no attribute "failed_during" [attr-defined]' in messages
    assert len(messages) > 80


def test_a_field_that_not_every_state_has_is_not_read_of_any_codon(found: Found) -> None:
    (message,) = found["anywhere"].values()
    assert "[union-attr]" in message


def test_asking_for_the_state_narrows_the_type(found: Found) -> None:
    assert found["narrowed"] == {}
    (message,) = found["not_narrowed"].values()
    assert message == '"CompletedCodon" has no attribute "current_cost" [attr-defined]'


def test_a_forgotten_state_is_named(found: Found) -> None:
    assert found["all_states"] == {}
    for state in STATES:
        (message,) = found[f"without_{state}"].values()
        assert f'incompatible type "{TYPES[state]}"; expected "Never"' in message
