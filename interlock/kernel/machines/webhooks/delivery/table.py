"""The stages and rows of a delivery. All of it is ours."""

from __future__ import annotations

from interlock.kernel.machine import Machine
from interlock.kernel.machines.webhooks.delivery import changes, payloads
from interlock.kernel.machines.webhooks.delivery.names import State, Trigger
from interlock.kernel.machines.webhooks.effects import WEBHOOK
from interlock.kernel.table import (
    CREATED,
    ORPHANS,
    PERSON,
    PRODUCER,
    STALLS,
    Active,
    Terminal,
    Waiting,
    by,
    move,
    rows,
)
from interlock.kernel.timer import Timer

LIMIT_MS = 3_600_000
KEPT_MS = 30 * 86_400_000
TOO_LATE = {"detail": "no worker has sent it in an hour"}
TOO_OLD = {"reason": "nobody replayed it in 30 days"}

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
             guard=changes.is_last, update=changes.failed, says="no further attempt is made"),
        move(Trigger.FAILED, State.WAITING, by(WEBHOOK, ORPHANS, STALLS), abandons=True,
             ours=RETRIED, update=changes.failed),
    ),
    *rows(State.WAITING,
        move(Trigger.DUE, State.SENDING, by(STALLS), ours=RETRIED),
    ),
    *rows((State.WAITING, State.DEAD),
        move(Trigger.REPLAY, State.SENDING, by(PERSON, PRODUCER), ours=REPLAYED,
             update=changes.replayed),
    ),
    *rows((State.SENDING, State.WAITING),
        move(Trigger.DROPPED, State.DROPPED, by(WEBHOOK, PERSON, PRODUCER), ours=REPLAYED,
             update=changes.dropped),
    ),
    *rows(State.DEAD,
        move(Trigger.DROPPED, State.DROPPED, by(STALLS, PERSON, PRODUCER), ours=REPLAYED,
             update=changes.dropped),
    ),
)
# fmt: on

DELIVERY = Machine(
    name="delivery",
    title=changes.title,
    initial_data=changes.initial_data,
    stages=(
        Active(
            State.SENDING,
            (Timer("limit", lambda _: LIMIT_MS, Trigger.FAILED, payload=TOO_LATE),),
            effect=WEBHOOK,
            outcomes=(Trigger.DELIVERED, Trigger.FAILED, Trigger.DROPPED),
            failures=(Trigger.FAILED,),
            exhausted=Trigger.FAILED,
        ),
        Waiting(
            State.WAITING,
            (Timer("backoff", lambda data: int(data["wait_ms"]), Trigger.DUE),),
        ),
        Waiting(
            State.DEAD,
            (Timer("expiry", lambda _: KEPT_MS, Trigger.DROPPED, payload=TOO_OLD),),
        ),
        Terminal(State.DELIVERED, is_success=True),
        Terminal(State.DROPPED),
    ),
    transitions=TRANSITIONS,
    says={
        CREATED: "{kind}: {endpoint} is notified of it",
        Trigger.DELIVERED: "its endpoint has taken it, with status {status}",
        Trigger.FAILED: "the attempt failed, and the next one waits for a while",
        Trigger.DUE: "the wait after a failed attempt is over",
        Trigger.REPLAY: "it is sent again",
        Trigger.DROPPED: "it is not sent any more",
    },
    payloads={
        Trigger.DELIVERED: payloads.DeliveryTaken,
        Trigger.FAILED: payloads.DeliveryFailure,
        Trigger.REPLAY: payloads.DeliveryReason,
        Trigger.DROPPED: payloads.DeliveryReason,
    },
    cancel_triggers=(Trigger.DROPPED,),
)
