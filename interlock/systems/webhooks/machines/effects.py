"""The effect that deliveries to webhooks owe.

A new effect also needs its line in HANDLERS of interlock/systems/webhooks/effects/__init__.py.
"""

from __future__ import annotations

from interlock import Effect

# Each attempt is one request; how often the receiver is asked is in delivery/limits.py.
WEBHOOK = Effect("webhook", attempts_max=20, pool="webhooks")
