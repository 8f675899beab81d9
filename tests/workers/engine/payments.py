"""A small machine of another project, whose functions may be wrong, and a runner of its effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum, auto
from typing import Any

import pytest

from interlock.kernel.effect import RESOLUTION, Effect
from interlock.kernel.machine import Machine
from interlock.kernel.payload import CardAnswer
from interlock.kernel.record import partition_of
from interlock.kernel.rows import by, move, reenter, rows
from interlock.kernel.table import ORPHANS, PERSON, STALLS, Active, Ask, Terminal, Waiting, always
from interlock.kernel.timer import Timer
from interlock.workers.client import Client
from interlock.workers.config import Settings
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.sweeps import orphans
from interlock.workers.engine.work import EffectWork, Handler, Outcome
from tests.known_systems import know_machines
from tests.sweeping import sweeping
from tests.workers.engine.running import perform

PAY = Effect("pay", retry_delay_ms=1)
DAY_MS = 86_400_000


class State(StrEnum):
    PAYING = auto()
    APPROVAL = auto()
    UNCLEAR = auto()
    DONE = auto()
    FAILED = auto()


class Trigger(StrEnum):
    PAID = auto()
    LOSE = auto()
    APPROVE = auto()
    REJECT = auto()
    LATE = auto()


class Paid(CardAnswer):
    payment: str = ""


def paid(ask: Ask) -> Mapping[str, Any]:
    return {**ask.data, **ask.payload}


def payment(
    *,
    update: Callable[[Ask], Any] = paid,
    question: Callable[[Any], str] = lambda data: f"Is {data['payment']} right?",
    once: bool = False,
    late: Callable[[Ask], Any] = lambda ask: ask.data,
    late_ms: int = DAY_MS,
    **stage: Any,
) -> Machine:
    """Return the table, with these functions."""
    reminder = Timer("reminder", lambda _: DAY_MS, effect=RESOLUTION)
    asked: dict[str, Any] = {
        "timers": (reminder,),
        "notifies": RESOLUTION,
        "card": "payment",
        "question": question,
        "affordances": (("approve", Trigger.APPROVE), ("reject", Trigger.REJECT)),
    }
    return Machine(
        name="payment",
        stages=(
            Active(
                State.PAYING,
                (Timer("late", lambda _: late_ms, Trigger.LATE),),
                effect=PAY,
                outcomes=(Trigger.PAID,),
                once=always if once else None,
                crash=Trigger.LOSE,
            ),
            Waiting(State.APPROVAL, **{**asked, **stage}),
            Waiting(State.UNCLEAR, **{**asked, "question": lambda _: "Was it paid?"}),
            Terminal(State.DONE, is_success=True),
            Terminal(State.FAILED),
        ),
        transitions=(
            *rows(
                State.PAYING,
                move(Trigger.PAID, State.APPROVAL, by(PAY), update=update),
                move(Trigger.LOSE, State.UNCLEAR, by(ORPHANS)),
                move(Trigger.LATE, State.UNCLEAR, by(STALLS), update=late),
            ),
            *rows(
                (State.APPROVAL, State.UNCLEAR),
                move(Trigger.APPROVE, State.DONE, by(PERSON), names_proposal=True),
                move(Trigger.REJECT, State.FAILED, by(PERSON)),
                reenter(Trigger.PAID, by(PERSON)),
            ),
        ),
        payloads={Trigger.PAID: Paid},
        cancel_triggers=(Trigger.REJECT,),
    )


class Payments:
    """A client and a runner that know the machine `payment`, and count how often was paid."""

    def __init__(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings, self._monkeypatch = settings, monkeypatch
        self.paid = 0

    def use(self, machine: Machine) -> None:
        """Work with this table from now on, as processes do that were started anew."""
        know_machines(self._monkeypatch, payment=lambda: machine)
        self.client = Client(self.settings, actor="ann")
        self.runner = Runner(self.client.dispatch, Resources(self.settings))
        self.machine = machine

    def pay(self, work: EffectWork) -> Outcome:
        del work
        self.paid += 1
        return Outcome(Trigger.PAID, {"payment": f"p{self.paid}"})

    def submit(self, **data: Any) -> None:
        self.client.submit(data, id="one", machine="payment")

    def work(self, handler: Handler | None = None, name: str = "pay") -> str:
        """Perform the effect that is owed, and return its line."""
        entries = self.client.show("one").entries
        entry = next(entry for entry in entries if entry.name == name)
        return perform(self.runner, self.machine, name, handler or self.pay, entry.key("one"))

    def sweep(self) -> None:
        """Let the sweep look for lost and given up effects once."""
        orphans.run(sweeping(self.client.dispatch), partition_of("one"))
