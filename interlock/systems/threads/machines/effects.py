"""The effects that threads owe.

A new effect also needs its line in HANDLERS of interlock/systems/threads/effects/__init__.py.
"""

from __future__ import annotations

from interlock import Effect

INFERENCE = Effect("inference", pool="models")
EXECUTION = Effect("execution")
CLEANUP = Effect("cleanup", attempts_max=5, local=True)
