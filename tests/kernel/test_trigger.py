"""A trigger is declared once: with its name, its sentence and the model of its payload."""

from __future__ import annotations

from pydantic import BaseModel

from interlock.kernel.machines import MACHINES
from interlock.kernel.trigger import Triggers


class Amount(BaseModel):
    cents: int


class Trigger(Triggers):
    PAID = "paid", "{cents} cents were paid", Amount
    LAPSED = "lapsed", "nobody paid in time"


def test_a_machine_takes_sentences_and_payloads_from_the_triggers() -> None:
    assert Trigger.sentences() == {
        "paid": "{cents} cents were paid",
        "lapsed": "nobody paid in time",
    }
    assert Trigger.payloads() == {"paid": Amount}


def test_a_trigger_is_the_text_of_its_name() -> None:
    assert [str(trigger) for trigger in Trigger] == ["paid", "lapsed"]


def test_every_declared_trigger_of_ours_is_called_as_its_member_is() -> None:
    declared = {row.trigger for machine in MACHINES.values() for row in machine.transitions}
    wrong = [trigger for trigger in declared if trigger.name.lower() != trigger]
    assert wrong == []
