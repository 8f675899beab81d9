"""The files of a system of somebody else, in a project of their own: parcels."""

from __future__ import annotations

from collections.abc import Mapping

FILES: Mapping[str, str] = {
    "parcels/__init__.py": '''"""Parcels: packed, shipped, taken in by a person."""

from interlock import CommandRow, Panel, System

SYSTEM = System(
    name="parcels",
    machines={"parcel": "parcels.table:PARCEL"},
    effects="parcels.effects",
    commands=(CommandRow("parcel", "parcels_cli:app", Panel.WORK, "Parcels."),),
    counted=("parcel",),
    shown=("to", "taken_by"),
)
''',
    "parcels/table.py": '''"""The parcel's states and table."""

from enum import StrEnum, auto

from interlock import (
    ORPHANS,
    PERSON,
    RESOLUTION,
    STALLS,
    Active,
    CardAnswer,
    Effect,
    Machine,
    Shape,
    Terminal,
    Timer,
    Waiting,
    always,
    by,
    move,
    reenter,
    rows,
    validated,
)

PACKING = Effect("packing", queue="parcels")
# A task has an effect of the name as well. Both effects of a parcel share a queue.
SHIPPING = Effect("merge", queue="parcels")


class State(StrEnum):
    PACKING = auto()
    SHIPPING = auto()
    AT_THE_DOOR = auto()
    MISSING = auto()
    DELIVERED = auto()
    RETURNED = auto()


class Trigger(StrEnum):
    PACKED = auto()
    BROUGHT = auto()
    LOST = auto()
    TAKE = auto()
    RETURN = auto()
    STALLED = auto()


class Parcel(Shape):
    to: str


class Taken(CardAnswer):
    by: str  # filled with the name of the person
    stars: int = 5
    rooms: list[int] = []
    marks: dict[str, int] = {}
    tip: float | None = None


def taken(ask):
    return {**ask.data, "taken_by": ask.payload["by"]}


STALL = Timer("stall", lambda _: 600_000, Trigger.STALLED)
REMINDER = Timer("reminder", lambda _: 86_400_000, effect=RESOLUTION)
AT_WORK = (State.PACKING, State.SHIPPING)

PARCEL = Machine(
    name="parcel",
    stages=(
        Active(State.PACKING, (STALL,), effect=PACKING, outcomes=(Trigger.PACKED,)),
        Active(
            State.SHIPPING,
            (STALL,),
            effect=SHIPPING,
            outcomes=(Trigger.BROUGHT,),
            once=always,
            crash=Trigger.LOST,
        ),
        Waiting(
            State.AT_THE_DOOR,
            (REMINDER,),
            notifies=RESOLUTION,
            card="door",
            question=lambda data: f"A parcel for {data['to']} is at the door. Take it?",
            affordances=(("take", Trigger.TAKE), ("return", Trigger.RETURN)),
        ),
        Waiting(
            State.MISSING,
            (REMINDER,),
            notifies=RESOLUTION,
            card="missing",
            question=lambda data: f"Did the parcel for {data['to']} come?",
            affordances=(("take", Trigger.TAKE), ("return", Trigger.RETURN)),
        ),
        Terminal(State.DELIVERED, is_success=True),
        Terminal(State.RETURNED),
    ),
    transitions=(
        *rows(
            State.PACKING,
            move(Trigger.PACKED, State.SHIPPING, by(PACKING)),
            reenter(Trigger.STALLED, by(STALLS)),
        ),
        *rows(
            State.SHIPPING,
            move(Trigger.BROUGHT, State.AT_THE_DOOR, by(SHIPPING)),
            move(Trigger.LOST, State.MISSING, by(ORPHANS)),
            move(Trigger.STALLED, State.MISSING, by(STALLS)),
        ),
        *rows(
            (State.AT_THE_DOOR, State.MISSING),
            move(Trigger.TAKE, State.DELIVERED, by(PERSON), update=taken, names_proposal=True),
        ),
        *rows(
            (*AT_WORK, State.AT_THE_DOOR, State.MISSING),
            move(Trigger.RETURN, State.RETURNED, by(PERSON)),
        ),
    ),
    payloads={Trigger.TAKE: Taken},
    initial_data=lambda payload: validated(Parcel, "the parcel", payload),
    cancel_triggers=(Trigger.RETURN,),
)
''',
    "parcels/effects.py": '''"""The effects of parcels."""

from interlock import EffectWork, Outcome


def packing(work: EffectWork) -> Outcome:
    """Put it into a box; there is none for the moon."""
    if work.record.data["to"] == "moon":
        raise LookupError("there is no box for the moon\\nnot even a small one")
    work.audit("boxed", {"to": work.record.data["to"]})
    return Outcome("packed")


def shipping(work: EffectWork) -> Outcome:
    """Bring it there."""
    return Outcome("brought")


HANDLERS = {"packing": packing, "parcel.merge": shipping}
''',
    "parcels_cli.py": '''"""The commands of parcels."""

import typer

from interlock import Client, guarded

app = typer.Typer()


@app.command()
@guarded
def send(parcel: str, to: str) -> None:
    """Send a parcel."""
    Client().submit({"to": to}, id=parcel, machine="parcel")
    typer.echo(f"{parcel} goes to {to}")


@app.command()
@guarded
def track(parcel: str) -> None:
    """Say where a parcel is."""
    typer.echo(Client().show(parcel).state)
''',
}
