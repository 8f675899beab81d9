"""The base of a machine's triggers: each is declared once, with its sentence and its payload."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import BaseModel

CREATED = "created"  # stands for the creation of a record where a trigger is named


class Triggers(StrEnum):
    """Base of the triggers of a machine: a name, a sentence, and a model where it has a payload.

    CLAIMED = "claimed", "{owner} claimed it", payloads.TaskClaimed

    The sentence says why the trigger moved a record; {field} is the value of a payload's field. A
    row that moves a record for another reason says that itself. In the log the payload's `reason`
    follows the sentence, or else `reasons`, `detail`, `feedback` or `summary`. A machine takes
    `payloads=Trigger.payloads()` and `says=Trigger.sentences(created="it was handed in")`.
    """

    _value_: str
    says: str
    payload: type[BaseModel] | None

    def __new__(cls, name: str, says: str, payload: type[BaseModel] | None = None) -> Self:
        """Make a member whose value is its name."""
        trigger = str.__new__(cls, name)
        trigger._value_ = name
        trigger.says, trigger.payload = says, payload
        return trigger

    @classmethod
    def sentences(cls, *, created: str = "") -> dict[str, str]:
        """Return the sentence of each trigger, as `Machine.says` takes them.

        `created` says why a record was created; its fields are those of the payload of that.
        """
        found: dict[str, str] = {trigger: trigger.says for trigger in cls if trigger.says}
        return {CREATED: created, **found} if created else found

    @classmethod
    def payloads(cls) -> dict[str, type[BaseModel]]:
        """Return the model of each trigger that has a payload, as `Machine.payloads` takes them."""
        return {trigger: trigger.payload for trigger in cls if trigger.payload}
