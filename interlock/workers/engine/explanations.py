"""Explains what a trigger, or an answer to a card, would do to a record now. It fires nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.kernel.decision import Explanation
from interlock.kernel.errors import InvalidPayloadError, UnknownStateError
from interlock.kernel.shown_stage import shown_legal
from interlock.kernel.store.commands import facts_read
from interlock.kernel.table import Waiting
from interlock.workers.engine.card import RETRY_CHOICE
from interlock.workers.engine.card_answers import CardAnswers
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.holds import why_held


def explain(
    dispatch: Dispatch, answers: CardAnswers, trigger: str, fields: Mapping[str, Any], by: str
) -> Explanation:
    """Return what a trigger, or a choice of the card, would do with these fields.

    `by` is who would fire it. Raises CallError for a trigger or a payload that is not taken.
    """
    machine, state = answers.machine, answers.record.state
    stage = machine.stage(state)
    offered = dict(stage.affordances) if isinstance(stage, Waiting) else {}
    if trigger not in offered and trigger in machine.triggers:
        return _explained(dispatch, answers, trigger, fields)
    if trigger == RETRY_CHOICE and (asking := answers.record.asking_effects):
        names = " and ".join(dict.fromkeys(entry.name for entry in asking))
        sentence = f"{trigger} would let {names} of {answers.record.id} try again"
        return Explanation(trigger, state, state, sentence)
    fired = answers.trigger(state, trigger)
    fields = answers.payload(state, fired, fields, by)
    found = _explained(dispatch, answers, fired, fields)
    # In the word that was asked about: the trigger of a choice may have another name.
    return replace(found, sentence=found.sentence.replace(fired, trigger, 1))


def explain_all(dispatch: Dispatch, answers: CardAnswers, by: str) -> list[Explanation]:
    """Return for each trigger of the machine who may fire it, and what it would do or why not."""
    machine, state = answers.machine, answers.record.state
    legal, found = shown_legal(machine, state), []
    for trigger in machine.triggers:
        try:
            fields = machine.taken_by(trigger, {"by": by}) if trigger in legal else None
            explained = _explained(dispatch, answers, trigger, fields)
        except (InvalidPayloadError, UnknownStateError) as refusal:
            explained = Explanation(trigger, state, "", str(refusal))
        may = (str(actor) for row in machine.rows(state, trigger) for actor in row.by)
        found.append(replace(explained, by=tuple(dict.fromkeys(may))))
    return found


def _explained(
    dispatch: Dispatch, answers: CardAnswers, trigger: str, payload: Mapping[str, Any] | None
) -> Explanation:
    """Explain a trigger. Without a payload, it is not admitted: no row takes it here."""
    machine, record = answers.machine, answers.record
    if payload is None:
        return machine.explain(record, trigger, {})
    facts = dispatch.lifecycle.facts(record, facts_read(machine, record, trigger))
    admitted = machine.admit(trigger, payload)
    explained = machine.explain(record, trigger, admitted, facts)
    if explained.target and (shares := machine.decide(record, trigger, admitted, facts).shares):
        why = why_held(dispatch, record, shares.takes)
        return replace(explained, target="", sentence=why) if why else explained
    return explained
