"""What the settings of a system are made of. `settings` of its `System` names their model.

Whoever has `Records` reads those of a model by `records.settings.of(TranslationSettings)`. What a
`field_validator` or `model_validator` of pydantic refuses by a ValueError, `interlock up` prints.
"""

from __future__ import annotations

from interlock.workers.config import SettingsError, SystemSettings

__all__ = [
    "SettingsError",
    "SystemSettings",
]
