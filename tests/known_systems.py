"""The systems and machines that a test's own process knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES, MachineEntry
from interlock.systems import NAMES
from interlock.workers.config import Settings, settings_of
from interlock.workers.engine import own_systems
from interlock.workers.engine.system import System


def settings_with(**values: Any) -> Settings:
    """Return the settings of a deployment that runs the systems of Interlock."""
    return settings_of(NAMES)(**values)


def know_only_ours(monkeypatch: pytest.MonkeyPatch, **added: System) -> None:
    """Forget what other tests have added; know the systems of Interlock, and these."""
    ours = {name: own_systems._ADDED[name] for name in NAMES}
    monkeypatch.setattr(own_systems, "_ADDED", ours | added)
    know_machines(monkeypatch)


def know_machines(monkeypatch: pytest.MonkeyPatch, **tables: Callable[[], Machine]) -> None:
    """Know the machines of Interlock, and these."""
    ours = {name: entry for name, entry in MACHINES.entries.items() if entry.is_ours}
    added = {name: MachineEntry(table) for name, table in tables.items()}
    monkeypatch.setattr(MACHINES, "entries", ours | added)
