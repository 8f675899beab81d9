"""The settings of webhooks."""

from __future__ import annotations

from pathlib import Path

from interlock.system.settings import SystemSettings


class WebhookSettings(SystemSettings):
    """The settings of webhooks: field `x` is read from the variable INTERLOCK_X."""

    # The file with the endpoints that are notified of cards and ends.
    webhooks: Path | None = None

    HIDDEN_FILES = ("webhooks",)
