"""What the settings of a system are made of. `settings` of its `System` names their model."""

from __future__ import annotations

from interlock.workers.config import SystemSettings
from interlock.workers.setting_values import HIDDEN, Seconds, Words, numbers_of, pairs_of

__all__ = [
    "HIDDEN",
    "Seconds",
    "SystemSettings",
    "Words",
    "numbers_of",
    "pairs_of",
]
