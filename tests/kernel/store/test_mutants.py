"""Each guard of the scripts is there for a reason: without it, a test of this folder fails.

A mutant is a script with one guard removed; the text of the guard occurs once in the script. The
test that it names passes on the original, and must fail on the mutant. A mutant that survives is a
guard without a test, or a test that shows nothing.
"""

from __future__ import annotations

from types import ModuleType

import pytest

from interlock.kernel import lifecycle
from interlock.kernel import notes as kernel_notes
from interlock.kernel.errors import KernelError
from tests.kernel.store import test_commits as commits
from tests.kernel.store import test_notes as notes
from tests.kernel.store import test_outcomes as outcomes
from tests.kernel.store.kernel_at_a_fixed_time import Text, World
from tests.kernel.store.mutant import Mutant, Scenario
from tests.kernel.store.mutants_of_commits import COMMITS
from tests.kernel.store.mutants_of_families import FAMILIES
from tests.kernel.store.mutants_of_leases import LEASES
from tests.kernel.store.mutants_of_moves_and_restores import MOVES, RESTORES
from tests.kernel.store.mutants_of_places import PLACES
from tests.kernel.store.mutants_of_shares import SHARES
from tests.kernel.store.mutants_of_subscriptions import CROSSING

MUTANTS: tuple[Mutant, ...] = (
    *COMMITS,
    *LEASES,
    *FAMILIES,
    *PLACES,
    *SHARES,
    *CROSSING,
    *RESTORES,
    *MOVES,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.guard.replace(" ", "-"))
def test_a_guard_that_is_removed_is_missed(mutant: Mutant, world: World, text: Text) -> None:
    text.change(mutant.script, mutant.old, mutant.new)
    with pytest.raises((AssertionError, KernelError, pytest.fail.Exception)) as missed:
        mutant.missed_by(world)
    # A script that does not compile, or lacks a name, proves nothing about its guard.
    assert "compiling" not in str(missed.value)
    assert "nonexistent global" not in str(missed.value)


PYTHON_MUTANTS: tuple[tuple[str, ModuleType, str, object, Scenario], ...] = (
    (
        "warrants-come-before-the-table",
        lifecycle,
        "entitled",
        lambda *_: True,
        outcomes.test_a_late_outcome_is_fenced_even_where_the_table_would_refuse_it,
    ),
    (
        "op-ids-have-a-bounded-length",
        kernel_notes,
        "check_op_id",
        lambda _: None,
        notes.test_deltas_without_an_op_id_are_refused,
    ),
    (
        "deltas-are-countable",
        lifecycle,
        "check_deltas",
        lambda _: None,
        commits.test_deltas_that_a_script_cannot_count_are_refused_before_anything_is_written,
    ),
    (
        "facts-are-read",
        lifecycle,
        "facts_read",
        lambda *_: (),
        commits.test_facts_of_ancestors_decide,
    ),
)


@pytest.mark.parametrize(
    ("module", "name", "instead", "missed_by"),
    [mutant[1:] for mutant in PYTHON_MUTANTS],
    ids=[mutant[0] for mutant in PYTHON_MUTANTS],
)
def test_a_check_that_is_removed_is_missed(
    module: ModuleType,
    name: str,
    instead: object,
    missed_by: Scenario,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, name, instead)
    with pytest.raises((AssertionError, KernelError, pytest.fail.Exception)):
        missed_by(world)
