"""The effects that coding tasks and their agents and turns owe.

A new effect also needs its line in HANDLERS of workers/tasks/effects/__init__.py, unless it is
`kept`: then no message is sent for it, and the process that created it holds it from the start.
The supervisor of an agent holds two: AGENT of the task, which is the claim, and SUPERVISION.
"""

from __future__ import annotations

from interlock.kernel.effect import Effect

ASSIGNMENT = Effect("assignment", attempts_max=20)
AGENT = Effect("agent", lease_ms=60_000, grace_ms=30_000, attempts_max=1, exclusive=True, kept=True)
SUPERVISION = Effect(
    "supervision", lease_ms=60_000, grace_ms=30_000, attempts_max=1, exclusive=True, kept=True
)
VERIFICATION = Effect("verification", exclusive=True, local=True)
# A user may work in the target for a day: the stage's timer ends the wait, not the attempts.
MERGE = Effect("merge", attempts_max=400, exclusive=True, local=True)
RECOVERY = Effect("recovery", exclusive=True, local=True)
TURN_CLEANUP = Effect("turn_cleanup", attempts_max=20, local=True)
FOLLOW_UP = Effect("follow_up", attempts_max=20)
ABORT = Effect("abort", attempts_max=20)
