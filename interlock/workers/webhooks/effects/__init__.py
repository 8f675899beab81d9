"""The effects of webhooks, one in each file. A new one needs its line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workers.engine.work import Handler
from interlock.workers.webhooks.effects.webhook import webhook

HANDLERS: Mapping[str, Handler] = {"webhook": webhook}
