"""What the settings of a system are made of. `settings` of its `System` names their model.

Whoever has `Records` reads those of a model by `records.settings.of(TranslationSettings)`.
"""

from __future__ import annotations

from interlock.workers.config import SettingsError, SystemSettings

__all__ = [
    "SettingsError",
    "SystemSettings",
]
