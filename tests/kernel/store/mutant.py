"""A mutant: a script with one guard removed, and the test that must fail because of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.kernel.store.kernel_at_a_fixed_time import World

Scenario = Callable[[World], None]


@dataclass(frozen=True)
class Mutant:
    """One guard that is removed: what it does, its script and text, and the test that must fail."""

    guard: str
    script: str
    old: str
    new: str
    missed_by: Scenario
