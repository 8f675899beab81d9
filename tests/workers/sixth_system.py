"""The files of a small system, as somebody would write them who adds a sixth one: parcels."""

from __future__ import annotations

from collections.abc import Mapping

FILES: Mapping[str, str] = {
    "kernel/machines/parcels/__init__.py": '"""Parcels."""\n',
    "kernel/machines/parcels/effects.py": '''"""The effects that parcels owe."""

from __future__ import annotations

from interlock.kernel.effect import Effect

PACKING = Effect("packing")
SHIPPING = Effect("shipping")
''',
    "kernel/machines/parcels/parcel/__init__.py": '"""A parcel, from packing to delivery."""\n',
    "kernel/machines/parcels/parcel/table.py": '''"""The parcel's states and table."""

from __future__ import annotations

from enum import StrEnum, auto

from interlock.kernel.machine import Machine
from interlock.kernel.machines.parcels.effects import PACKING, SHIPPING
from interlock.kernel.table import STALLS, Active, Terminal, Timer, by, move, reenter, rows


class State(StrEnum):
    """The states of a parcel."""

    PACKING = auto()
    SHIPPING = auto()
    DELIVERED = auto()


class Trigger(StrEnum):
    """The triggers that can be fired at a parcel."""

    PACKED = auto()
    DELIVERED = auto()
    STALLED = auto()


STALL = Timer("stall", lambda _: 600_000, Trigger.STALLED)

PARCEL = Machine(
    name="parcel",
    stages=(
        Active(State.PACKING, (STALL,), effect=PACKING, outcomes=(Trigger.PACKED,)),
        Active(State.SHIPPING, (STALL,), effect=SHIPPING, outcomes=(Trigger.DELIVERED,)),
        Terminal(State.DELIVERED),
    ),
    transitions=(
        *rows(State.PACKING, move(Trigger.PACKED, State.SHIPPING, by(PACKING))),
        *rows(State.SHIPPING, move(Trigger.DELIVERED, State.DELIVERED, by(SHIPPING))),
        *rows((State.PACKING, State.SHIPPING), reenter(Trigger.STALLED, by(STALLS))),
    ),
)
''',
    "workers/parcels/__init__.py": '"""Parcels: packed and shipped."""\n',
    "workers/parcels/system.py": '''"""The line of parcels in the registry."""

from __future__ import annotations

from interlock.workers.engine.system import CommandRow, Panel, System

SYSTEM = System(
    name="parcels",
    effects="interlock.workers.parcels.effects",
    commands=(CommandRow("parcel", "interlock.workers.parcels.cli:app", Panel.WORK, "Parcels."),),
    counted=("parcel",),
    shown=("to",),
)
''',
    "workers/parcels/client.py": '''"""Parcels for programs."""

from __future__ import annotations

from interlock.workers.client import Client, Submitted


class Parcels:
    """What can be done with parcels."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def send(self, parcel: str, to: str) -> Submitted:
        """Hand a parcel in."""
        return self.client.submit({"to": to}, id=parcel, machine="parcel")
''',
    "workers/parcels/cli.py": '''"""The commands of parcels."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock.workers.parcels import screen
from interlock.workers.parcels.client import Parcels
from interlock.workers.terminal.answer import AsJson, Id, answer, client, guarded

app = typer.Typer()


@app.command()
@guarded
def send(
    parcel: Id, to: Annotated[str, typer.Option(help="Where it goes.")], as_json: AsJson = False
) -> None:
    """Send a parcel."""
    done = Parcels(client()).send(parcel, to)
    answer({"id": done.id, "to": to}, as_json=as_json, show=screen.sent)


@app.command()
@guarded
def track(parcel: Id, as_json: AsJson = False) -> None:
    """Say where a parcel is."""
    record = client().show(parcel)
    value = {"id": record.id, "state": record.state, "to": record.data["to"]}
    answer(value, as_json=as_json, show=screen.tracked)
''',
    "workers/parcels/screen.py": '''"""What people see of parcels."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workers.terminal.screen import grid, out, state_text


def sent(value: Mapping[str, str]) -> None:
    """Show that a parcel was handed in."""
    out.print(f"{value['id']} goes to {value['to']}")


def tracked(value: Mapping[str, str]) -> None:
    """Show where a parcel is."""
    table = grid("parcel", "state", "to")
    table.add_row(value["id"], state_text(value["state"]), value["to"])
    out.print(table)
''',
    "workers/parcels/effects/__init__.py": '''"""The effects of parcels, one a file."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workers.engine.work import Handler
from interlock.workers.parcels.effects.packing import packing
from interlock.workers.parcels.effects.shipping import shipping

HANDLERS: Mapping[str, Handler] = {"packing": packing, "shipping": shipping}
''',
    "workers/parcels/effects/packing.py": '''"""Packs a parcel."""

from __future__ import annotations

from interlock.workers.engine.work import Outcome, Work


def packing(work: Work) -> Outcome:
    """Put it into a box."""
    work.audit("boxed", {"to": work.record.data["to"]})
    return Outcome("packed")
''',
    "workers/parcels/effects/shipping.py": '''"""Ships a parcel."""

from __future__ import annotations

from interlock.workers.engine.work import Outcome, Work


def shipping(work: Work) -> Outcome:
    """Bring it there."""
    del work
    return Outcome("delivered")
''',
}

# All that changes outside the folders of the new system: in each file, what is replaced by what.
RUNS = "from interlock.workers.runs.system import SYSTEM as RUNS\n"
PARCELS = "from interlock.workers.parcels.system import SYSTEM as PARCELS\n"
LINES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "kernel/machines/__init__.py": (
        ('    "loops": ("loop",),\n', '    "loops": ("loop",),\n    "parcels": ("parcel",),\n'),
    ),
    "workers/systems.py": (
        (RUNS, PARCELS + RUNS),
        ("JOBS, LOOPS, RUNS)", "JOBS, LOOPS, RUNS, PARCELS)"),
    ),
    # The import contracts: the floor of the systems, and who are strangers to each other.
    "pyproject.toml": (
        (
            '"threads | tasks | jobs | loops | runs"',
            '"threads | tasks | jobs | loops | runs | parcels"',
        ),
        (
            '    "interlock.kernel.machines.runs",\n',
            '    "interlock.kernel.machines.runs",\n    "interlock.kernel.machines.parcels",\n',
        ),
        (
            '    "interlock.workers.runs",\n',
            '    "interlock.workers.runs",\n    "interlock.workers.parcels",\n',
        ),
    ),
}
