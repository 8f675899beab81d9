"""The effects of webhooks, one in each file. A new one needs its line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.systems.webhooks.effects.webhook import webhook
from interlock.workers.engine.work import Handler

HANDLERS: Mapping[str, Handler] = {"webhook": webhook}
