"""The effects that coding tasks and their agents and turns owe.

A new effect also needs its line in HANDLERS of interlock/systems/tasks/effects/__init__.py, unless
it is `kept`: then no message is sent for it, and the process that created it holds it from the
start. The supervisor of an agent holds two of these: AGENT, which its task owes from the claim to
the end of the work, and SUPERVISION, which the agent's own record owes until the agent is dead.
"""

from __future__ import annotations

from interlock import Effect

ASSIGNMENT = Effect("assignment", attempts_max=20)
AGENT = Effect("agent", lease_ms=60_000, grace_ms=30_000, attempts_max=1, exclusive=True, kept=True)
SUPERVISION = Effect(
    "supervision", lease_ms=60_000, grace_ms=30_000, attempts_max=1, exclusive=True, kept=True
)
VERIFICATION = Effect("verification", exclusive=True, local=True, pool="commands")
# A merge waits while a person has to remove something, such as changes in the checkout of the
# target. It has so many attempts that they last for a day; then a timer of the stage ends the wait.
MERGE = Effect("merge", attempts_max=400, exclusive=True, local=True, pool="commands")
RECOVERY = Effect("recovery", exclusive=True, local=True, pool="commands")
TURN_CLEANUP = Effect("turn_cleanup", attempts_max=20, local=True)
FOLLOW_UP = Effect("follow_up", attempts_max=20)
ABORT = Effect("abort", attempts_max=20)
