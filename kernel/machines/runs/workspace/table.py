"""The workspace's table: a folder, the events that are posted to its runs, its end. All is ours."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import Annotated, Any

from pydantic import Field

from interlock.kernel.machine import Machine
from interlock.kernel.machines.runs.effects import EVENTS
from interlock.kernel.machines.runs.events import admitted
from interlock.kernel.machines.runs.values import Detail, Name, Path
from interlock.kernel.payload import Shape, validated
from interlock.kernel.table import Ask, Data, Loop, Terminal, Timer, Transition, Waiting

RECHECK_MS = 3_600_000
NOTHING_READ = "0-0"
MailId = Annotated[str, Field(pattern=r"^\d{1,20}-\d{1,20}$")]


class S(StrEnum):
    """Where a workspace can stand."""

    OPEN = auto()
    CLOSED = auto()


class T(StrEnum):
    """What can be fired at a workspace."""

    EVENT_READ = auto()
    CLOSE = auto()


class NewWorkspace(Shape):
    """Which folder of which machine it is."""

    folder: Path
    host: Annotated[str, Field(max_length=255)] = ""


class WorkspaceEventRead(Shape):
    """Which posted event was read last, and what became of it."""

    upto: MailId


class WorkspaceMail(Shape):
    """One event, and who told it."""

    sender: Name
    event: dict[str, Any]


class WorkspaceClose(Shape):
    """Why no more runs are to begin there."""

    reason: Detail = ""


def birth(payload: Data) -> Data:
    """Check which folder it is; no posted event was read yet."""
    return {**validated(NewWorkspace, "the workspace", payload), "acknowledged": NOTHING_READ}


def posted(payload: Data) -> Data:
    """Check what is told to the runs of a workspace."""
    given = validated(WorkspaceMail, "the message", payload)
    return {**given, "event": admitted(given["event"])}


def is_ahead(ask: Ask) -> bool:
    """Whether it comes after what was read before: nothing is read twice."""
    return _position(ask.payload["upto"]) > _position(ask.data["acknowledged"])


def _position(mail: str) -> tuple[int, ...]:
    return tuple(int(part) for part in mail.split("-"))


def read_upto(ask: Ask) -> Data:
    """Keep how far the posted events are read."""
    return {**ask.data, "acknowledged": ask.payload["upto"]}


STAGES = (
    Waiting(S.OPEN, (Timer("recheck", lambda _: RECHECK_MS, effect=EVENTS),), asks=lambda _: False),
    Terminal(S.CLOSED),
)
POSTED = "the page keeps its queue in memory; ours is an inbox, and this is how far it is read"
READ = "it is read already"
FORGOTTEN = "the page keeps every run for ever"

# fmt: off
TRANSITIONS = (
    Transition(S.OPEN, T.EVENT_READ, S.OPEN,   guard=is_ahead, refusal=READ, update=read_upto, loop=Loop.INTERNAL, by=("events",), ours=POSTED),
    Transition(S.OPEN, T.CLOSE,      S.CLOSED, by=("person", "producer"), ours=FORGOTTEN),
)
# fmt: on

WORKSPACE = Machine(
    name="workspace",
    stages=STAGES,
    transitions=TRANSITIONS,
    initial_data=birth,
    payloads={T.EVENT_READ: WorkspaceEventRead, T.CLOSE: WorkspaceClose},
    ignores={T.CLOSE: "it is closed already"},
    mail_data=posted,
    mail_effect=EVENTS,
)
