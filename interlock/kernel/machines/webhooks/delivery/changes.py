"""The guard and updates of a delivery's rows, and its first data. Pure functions."""

from __future__ import annotations

from interlock.kernel.machines.webhooks.delivery.payloads import NewDelivery
from interlock.kernel.payload import validated
from interlock.kernel.table import Ask, Data

# The waits after the first, second, ... failure, as the specification Standard Webhooks has them.
WAITS_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
# A wait is longer or shorter by up to this share of it.
JITTER_SHARE = 0.1


def initial_data(payload: Data) -> Data:
    """Check what a delivery is created from; nothing was tried yet."""
    return {**validated(NewDelivery, "the delivery", payload), "failures": 0}


def title(data: Data) -> str:
    """Name a delivery in lists: the kind of its message, the record, the endpoint."""
    return f"{data['kind']} of {data['record']} to {data['endpoint']}"


def is_last(ask: Ask) -> bool:
    """Whether this failure is the last: the endpoint is gone, or no wait is left."""
    return bool(ask.payload["gone"]) or ask.data["failures"] >= len(WAITS_S)


def failed(ask: Ask) -> Data:
    """Count a failure, keep why, and set how long the delivery waits."""
    failures, payload = ask.data["failures"] + 1, ask.payload
    failure = {name: payload[name] for name in ("detail", "status") if name in payload}
    data = {**ask.data, "failures": failures, "failure": failure}
    if is_last(ask):
        return data
    wait_ms = WAITS_S[failures - 1] * 1_000
    spread_ms = int(wait_ms * JITTER_SHARE * (2 * payload["jitter"] - 1))
    asked_ms = payload.get("retry_after_s", 0) * 1_000
    return {**data, "wait_ms": max(wait_ms + spread_ms, asked_ms)}


def replayed(ask: Ask) -> Data:
    """Begin anew, with all attempts."""
    return {**ask.data, "failures": 0}


def dropped(ask: Ask) -> Data:
    """Keep why the message is not sent."""
    return {**ask.data, "dropped": ask.payload["reason"]}
