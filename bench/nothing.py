"""The capability of a measured job's worker, which does nothing."""

from __future__ import annotations

from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities.capability import capability


@capability(idempotent=True, irreversibility=Level.LOW, deadline_s=60)
async def nothing() -> None:
    """Do nothing."""


CAPABILITIES = (nothing,)
