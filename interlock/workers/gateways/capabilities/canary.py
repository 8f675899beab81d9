"""The capability of canaries: it does nothing, and nobody is offered it."""

from __future__ import annotations

from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities.capability import capability


@capability(idempotent=True, irreversibility=Level.LOW, deadline_s=5)
def interlock_canary() -> None:
    """Do nothing. A canary executes it, to see that actions are executed."""
