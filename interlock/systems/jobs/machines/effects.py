"""The effects that jobs and graphs owe.

A new effect also needs its line in HANDLERS of interlock/systems/jobs/effects/__init__.py.
"""

from __future__ import annotations

from interlock import Effect

SUBSCRIPTION = Effect("subscription", attempts_max=20, quick=True)
# Exclusive, because the worker that it starts must not meet one that is still ending.
SCHEDULING = Effect("scheduling", attempts_max=20, exclusive=True, quick=True)
SLOT_RELEASE = Effect("slot_release", attempts_max=20, exclusive=True, quick=True)
WORKER = Effect("worker", attempts_max=1, exclusive=True, local=True, pool="commands")
REVIEWER = Effect("reviewer", attempts_max=1, exclusive=True, local=True, pool="commands")
APPROVAL = Effect("approval", attempts_max=20, quick=True)
GRAPH_UPKEEP = Effect("graph_upkeep", attempts_max=20, quick=True)
MANIFEST = Effect("manifest", attempts_max=20, local=True)
