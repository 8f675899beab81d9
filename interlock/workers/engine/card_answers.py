"""What an answer to a record's card means: the trigger that it fires, and the payload of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.kernel.errors import CallError, InvalidPayloadError, StaleDecisionError
from interlock.kernel.machine import Machine
from interlock.kernel.payload import validated
from interlock.kernel.record import Record
from interlock.kernel.table import Waiting
from interlock.workers.engine.answer_schema import ACTION_FIELDS, action_of, names_action
from interlock.workers.engine.submission import check_commands

if TYPE_CHECKING:  # imported where it is loaded
    from interlock.workers.gateways.capabilities.registry import Registry


@dataclass(frozen=True, slots=True)
class CardAnswers:
    """The answers to the cards of a record. `registry` opens the capabilities.

    `run_refusal` is why a payload may name no command to run, or ''.
    """

    machine: Machine
    record: Record
    registry: Callable[[], Registry]
    run_refusal: str = ""

    def version(self, proposal: str) -> int:
        """Return a proposal's version. Raises StaleDecisionError if it is not this record's."""
        seen_id, _, entered = proposal.rpartition(":")
        if seen_id != self.record.id or not (entered.isascii() and entered.isdigit()):
            raise self.stale(proposal)
        return int(entered)

    def stale(self, proposal: str) -> StaleDecisionError:
        """Return the error for an answer to a proposal that is not the current one."""
        waits = self.machine.stage(self.record.state).waits_for_person(self.record.data)
        return StaleDecisionError(proposal, self.record.proposal if waits else None)

    def trigger(self, state: str, choice: str, also: Sequence[str] = ()) -> str:
        """Return the trigger that a choice fires in a state. An error names those of `also` too."""
        stage = self.machine.stage(state)
        offered = dict(stage.affordances) if isinstance(stage, Waiting) else {}
        if choice in offered:
            return offered[choice]
        if choice == "redirect" and "redirected" in self.machine.legal(state):
            return "redirected"
        choices = ", ".join(dict.fromkeys([*offered, *also])) or "none, it waits for no answer"
        record_id = self.record.id
        raise CallError(f"{choice!r} is no answer to {record_id} in {state}; there are: {choices}")

    def payload(
        self, state: str, trigger: str, answer: Mapping[str, Any], by: str
    ) -> dict[str, Any]:
        """Return the payload that an answer to the card of a state fires its trigger with.

        Raises CallError if the card does not take it, or for wrong parameters of a capability.
        """
        if "by" in answer:
            raise InvalidPayloadError("the answer", ["by: leave it out; it is who answers"])
        stage = self.machine.stage(state)
        model = stage.answers.get(trigger) if isinstance(stage, Waiting) else None
        if model is not None:
            validated(model, trigger, answer)
        return self.signed(trigger, self.checked_action(trigger, answer), by)

    def signed(self, trigger: str, fields: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Return a payload with who answers in its field `by`, if the trigger's payload has it.

        Raises ForbiddenError for one that names a command, where nobody may name any.
        """
        check_commands(self.machine, fields, self.run_refusal)
        return dict(fields) | self.machine.taken_by(trigger, {"by": by})

    def checked_action(self, trigger: str, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Check an action of a person against its capability. Other answers have none to check."""
        if not ACTION_FIELDS & answer.keys() or not names_action(self.machine, trigger):
            return dict(answer)
        from interlock.workers.gateways.capabilities.answers import (  # noqa: PLC0415
            checked_answer,
        )

        return checked_answer(self.registry(), dict(answer), trigger, action_of(self.record.data))
