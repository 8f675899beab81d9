"""The addresses of rejected messages: look at them, do what they ask for again, drop them.

A message can be about any record, and can have the token of a claim. So they are for operators of
all machines.
"""

from __future__ import annotations

from copy import copy
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from interlock.kernel.store.rejected import RejectedMessage
from interlock.workers.access.roles import Caller
from interlock.workers.api.access import OperatingAll
from interlock.workers.api.models import Fields, RejectedList
from interlock.workers.api.problems import PROBLEMS
from interlock.workers.producer_message import replay as replay_message

router = APIRouter(prefix="/v1/rejected", tags=["rejected messages"], responses=PROBLEMS)

CURSOR = "^([1-9][0-9]{0,14}-[0-9]{1,15})?$"
PAGE_MAX = 100  # each message may have 1 MiB
CODE = "replayed-by:"  # before the name of who replays, in the codes of a line of a log
MessageId = Annotated[str, Path(description="The id of a message.")]


@router.get("", operation_id="listRejectedMessages")
def rejected(
    client: OperatingAll,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = PAGE_MAX,
    cursor: Annotated[str, Query(pattern=CURSOR)] = "",
) -> RejectedList:
    """List the rejected messages that are kept, the newest first."""
    found = client.dispatch.rejected.newest(limit, before=cursor)
    following = found[-1].id if len(found) == limit else ""
    return RejectedList(messages=list(map(shown, found)), next=following)


@router.post("/{message_id}:replay", operation_id="replayRejectedMessage")
def replay(message_id: MessageId, client: OperatingAll, request: Request) -> Fields:
    """Do again what a message asked for, as the actor that it names; drop it if it is accepted.

    Nobody has proved that name. So the log has beside it the proved name of who replays.
    """
    by: Caller = request.state.caller
    as_intake = copy(client)
    as_intake.actor, as_intake.codes = "intake", (f"{CODE}{by.name}",) if by.proved else ()
    return replay_message(as_intake, client.dispatch.rejected.message(message_id))


@router.post("/{message_id}:drop", operation_id="dropRejectedMessage")
def drop(message_id: MessageId, client: OperatingAll) -> Fields:
    """Drop a message for good. Its producer is not notified."""
    client.dispatch.rejected.drop(message_id)
    return {"id": message_id, "answer": "dropped"}


@router.get("/{message_id}", operation_id="showRejectedMessage")
def message(message_id: MessageId, client: OperatingAll) -> Fields:
    """Return a rejected message whole."""
    return shown(client.dispatch.rejected.message(message_id))


def shown(message: RejectedMessage) -> Fields:
    """Return a message as an answer has it. `verb` is what it asked for, if it can be replayed."""
    return {"at_ms": message.at_ms, **asdict(message)}
