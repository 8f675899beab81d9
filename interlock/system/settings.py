"""What the settings of a system are made of. `settings` of its `System` names their model."""

from __future__ import annotations

from interlock.workers.config import SettingsError, SystemSettings

__all__ = [
    "SettingsError",
    "SystemSettings",
]
