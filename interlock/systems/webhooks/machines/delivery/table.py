"""The guard, the updates, the stages and rows of a delivery. All of it is ours."""

from __future__ import annotations

from interlock import (
    ORPHANS,
    PERSON,
    PRODUCER,
    STALLS,
    Active,
    Ask,
    Machine,
    Terminal,
    Timer,
    Waiting,
    by,
    move,
    rows,
    validated,
)
from interlock.system.tables import Meaning
from interlock.system.tables import RecordData as Data
from interlock.systems.webhooks.machines.delivery import limits
from interlock.systems.webhooks.machines.delivery.names import State, Trigger
from interlock.systems.webhooks.machines.delivery.payloads import DeliveryData, NewDelivery
from interlock.systems.webhooks.machines.effects import WEBHOOK


def initial_data(payload: Data) -> Data:
    """Check what a delivery is created from; nothing was tried yet."""
    return {**validated(NewDelivery, "the delivery", payload), "failures": 0}


def title(data: DeliveryData) -> str:
    """Name a delivery in lists: the kind of its message, the record, the endpoint."""
    return f"{data['kind']} of {data['record']} to {data['endpoint']}"


def is_last(ask: Ask[DeliveryData]) -> bool:
    """Whether this failure is the last: the endpoint is gone, or no wait is left."""
    return bool(ask.payload["gone"]) or ask.data["failures"] >= len(limits.WAITS_S)


def failed(ask: Ask[DeliveryData]) -> Data:
    """Count a failure, keep why, and set how long the delivery waits."""
    failures, payload = ask.data["failures"] + 1, ask.payload
    failure = {name: payload[name] for name in ("detail", "status") if name in payload}
    data = {**ask.data, "failures": failures, "failure": failure}
    if is_last(ask):
        return data
    wait_ms = limits.WAITS_S[failures - 1] * 1_000
    spread_ms = int(wait_ms * limits.JITTER_SHARE * (2 * payload["jitter"] - 1))
    asked_ms = payload.get("retry_after_s", 0) * 1_000
    return {**data, "wait_ms": max(wait_ms + spread_ms, asked_ms)}


def replayed(ask: Ask[DeliveryData]) -> Data:
    """Begin anew, with all attempts."""
    return {**ask.data, "failures": 0}


def dropped(ask: Ask[DeliveryData]) -> Data:
    """Keep why the message is not sent."""
    return {**ask.data, "dropped": ask.payload["reason"]}


def wait_ms(data: DeliveryData) -> int:
    """Return how long a delivery waits for its next attempt."""
    return data["wait_ms"]


TOO_LATE = {"detail": "no worker has sent it in an hour"}
TOO_OLD = {"reason": f"nobody replayed it in {limits.DEAD_MS // 86_400_000} days"}

OURS = "each delivery is a record, so that its message is neither lost nor unknown"
RETRIED = "an endpoint that is away for a day gets the message when it is back"
REPLAYED = "a person has repaired the endpoint, or wants no more of it"

# A row that `abandons` a request: the message may have come, and comes again with the same id, as
# the page of webhooks promises.
# fmt: off
TRANSITIONS = (
    *rows(State.SENDING,
        move(Trigger.DELIVERED, State.DELIVERED, by(WEBHOOK), ours=OURS),
        move(Trigger.FAILED, State.DEAD, by(WEBHOOK, ORPHANS, STALLS), abandons=True, ours=OURS,
             guard=is_last, update=failed, says="no further attempt is made"),
        move(Trigger.FAILED, State.WAITING, by(WEBHOOK, ORPHANS, STALLS), abandons=True,
             ours=RETRIED, update=failed),
    ),
    *rows(State.WAITING,
        move(Trigger.DUE, State.SENDING, by(STALLS), ours=RETRIED),
    ),
    *rows((State.WAITING, State.DEAD),
        move(Trigger.REPLAY, State.SENDING, by(PERSON, PRODUCER), ours=REPLAYED,
             update=replayed),
    ),
    *rows((State.SENDING, State.WAITING),
        move(Trigger.DROPPED, State.DROPPED, by(WEBHOOK, PERSON, PRODUCER), ours=REPLAYED,
             update=dropped),
    ),
    *rows(State.DEAD,
        move(Trigger.DROPPED, State.DROPPED, by(STALLS, PERSON, PRODUCER), ours=REPLAYED,
             update=dropped),
    ),
)
# fmt: on

DELIVERY = Machine(
    name="delivery",
    title=title,
    initial_data=initial_data,
    stages=(
        Active(
            State.SENDING,
            (Timer("limit", lambda _: limits.SENDING_MS, Trigger.FAILED, payload=TOO_LATE),),
            effect=WEBHOOK,
            outcomes=(Trigger.DELIVERED, Trigger.FAILED, Trigger.DROPPED),
            failures=(Trigger.FAILED,),
            exhausted=Trigger.FAILED,
        ),
        Waiting(
            State.WAITING,
            (Timer("backoff", wait_ms, Trigger.DUE),),
            shown="waiting for another try",
        ),
        Waiting(
            State.DEAD,
            (Timer("expiry", lambda _: limits.DEAD_MS, Trigger.DROPPED, payload=TOO_OLD),),
            shown="not delivered",
            meaning=Meaning.FAILED,
        ),
        Terminal(State.DELIVERED, is_success=True),
        Terminal(State.DROPPED),
    ),
    transitions=TRANSITIONS,
    says=Trigger.sentences(created="{kind}: {endpoint} is notified of it"),
    payloads=Trigger.payloads(),
    cancel_triggers=(Trigger.DROPPED,),
)
