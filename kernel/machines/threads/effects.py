"""The effects that threads owe.

A new effect also needs its handler in the registry line of its system.
"""

from __future__ import annotations

from interlock.kernel.effect import Effect

INFERENCE = Effect("inference")
EXECUTION = Effect("execution")
CLEANUP = Effect("cleanup", attempts_max=5)
