"""The effects of webhooks, one in each file. A new one needs its line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.system.records import Handler
from interlock.systems.webhooks.effects.webhook import webhook

HANDLERS: Mapping[str, Handler] = {"webhook": webhook}
