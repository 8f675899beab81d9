"""The effects that runs, workspaces and codons owe.

A new effect also needs its line in HANDLERS of interlock/systems/runs/effects/__init__.py.
"""

from __future__ import annotations

from interlock import Effect

# One process, on the workspace's host, holds a run and the codon that is executed.
LAUNCH = Effect("launch", attempts_max=1, exclusive=True, local=True)
STEP = Effect("step", attempts_max=1, exclusive=True, kept=True)
EVENTS = Effect("events", attempts_max=20, quick=True)
CODON_CLEANUP = Effect("codon_cleanup", attempts_max=20, quick=True)
