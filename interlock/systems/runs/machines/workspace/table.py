"""The workspace's payloads, states and table: events that are posted to its runs. All is ours."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, auto
from typing import Annotated, Any, TypedDict

from pydantic import Field

from interlock import (
    PERSON,
    PRODUCER,
    Ask,
    Machine,
    Shape,
    Terminal,
    Timer,
    Waiting,
    by,
    move,
    rows,
    stay,
    validated,
)
from interlock.system.tables import RecordData as Data
from interlock.system.tables import Triggers
from interlock.systems.runs.machines import limits
from interlock.systems.runs.machines.effects import EVENTS
from interlock.systems.runs.machines.events import checked
from interlock.systems.runs.machines.published_names import is_published
from interlock.systems.runs.machines.values import Detail, Name, Path

NOTHING_READ = "0-0"
MailId = Annotated[str, Field(pattern=r"^\d{1,20}-\d{1,20}$")]


class State(StrEnum):
    """The states of a workspace."""

    OPEN = auto()
    CLOSED = auto()


class WorkspaceData(TypedDict):
    """The data of a workspace. `acknowledged` is the posted event that was read last."""

    folder: str
    host: str
    acknowledged: str


class NewWorkspace(Shape):
    """The folder, and the host that it is on."""

    folder: Path
    host: Annotated[str, Field(max_length=limits.HOST_LENGTH_MAX)] = ""


class WorkspaceEventRead(Shape):
    """The posted event that was read last."""

    upto: MailId


class WorkspaceMail(Shape):
    """One event, and who posts it."""

    sender: Name
    event: dict[str, Any]


class WorkspaceClose(Shape):
    """The reason why no more runs may begin in the workspace."""

    reason: Detail = ""


class Trigger(Triggers):
    """The triggers that can be fired at a workspace."""

    EVENT_READ = "event_read", "the posted events up to {upto} are read", WorkspaceEventRead
    CLOSE = "close", "no more runs may begin in it", WorkspaceClose


def initial_data(payload: Data) -> Data:
    """Check what a workspace is created from; no posted event was read yet."""
    return {**validated(NewWorkspace, "the workspace", payload), "acknowledged": NOTHING_READ}


def mail_data(payload: Data) -> Data:
    """Check an event that is posted to the runs of a workspace.

    It is kept with our names; `names` says where it had the page's, which its answer has then, too.
    """
    event = payload.get("event")
    # Checked first, because a shape cannot copy an event that is nested deeply.
    ours = checked(event) if isinstance(event, Mapping) else event
    mail = validated(WorkspaceMail, "the message", {**payload, "event": ours})
    return {**mail, **({"names": "hankweave"} if is_published(event) else {})}


def is_ahead(ask: Ask[WorkspaceData]) -> bool:
    """Whether the event comes after those that were read: none is read twice."""
    return _position(ask.payload["upto"]) > _position(ask.data["acknowledged"])


def _position(mail_id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in mail_id.split("-"))


def event_read(ask: Ask[WorkspaceData]) -> Data:
    """Keep how far the posted events are read."""
    return {**ask.data, "acknowledged": ask.payload["upto"]}


STAGES = (
    Waiting(State.OPEN, (Timer("recheck", lambda _: limits.RECHECK_MS, effect=EVENTS),)),
    Terminal(State.CLOSED),
)

# Why a row is ours.
POSTED = "the page keeps its queue in memory; ours is an inbox, and this is how far it is read"
FORGOTTEN = "the page keeps every run for ever"

# Why a guard refuses.
READ = "it is read already"

# fmt: off
TRANSITIONS = (
    *rows(State.OPEN,
        stay(Trigger.EVENT_READ, by(EVENTS), ours=POSTED,
             guard=is_ahead, refusal=READ, update=event_read),
        move(Trigger.CLOSE, State.CLOSED, by(PERSON, PRODUCER), ours=FORGOTTEN),
    ),
)
# fmt: on

WORKSPACE = Machine(
    name="workspace",
    stages=STAGES,
    transitions=TRANSITIONS,
    says=Trigger.sentences(created="it was opened for runs"),
    initial_data=initial_data,
    payloads=Trigger.payloads(),
    ignores={Trigger.CLOSE: "it is closed already"},
    inbox=EVENTS,
    inbox_data=mail_data,
)
