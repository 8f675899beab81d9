"""The forms of a card's answers: one text in sight, and exact values folded away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from interlock.workers.console.card_summary import keys_of
from interlock.workers.console.forms import FormField, fields_of, for_capability
from interlock.workers.engine.answer_commands import needs_answer, text_field
from interlock.workers.engine.card import Affordance, Card

# The field of a form that says which part of an answer was sent: its words, or its exact values.
PART, WORDS, EXACT = "part", "words", "exact"
PARAMETERS, REASON = "parameters.", "reason"
WHY, WHY_NOT = "Why, for the log", "Why not, for the log"
# What the field for words is called, by its name.
LABELS = {"text": "In your words", "feedback": "In your words", "intent": "What is wanted"}


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """One possible answer, with its form. `key` chooses it.

    `shown` are its fields in sight, and `folded` those that are sent with them. `exact` are fields
    that begin with proposed values: they have a form of their own, so that words are never sent
    with values that nobody looked at. `wrong` says what is wrong with fields that were sent.
    """

    offer: Affordance
    key: str
    shown: tuple[FormField, ...]
    folded: tuple[FormField, ...]
    exact: tuple[FormField, ...]
    values: Mapping[str, str]
    wrong: Mapping[str, str]
    leads_to: str
    is_open: bool  # its form is in sight
    is_bare: bool  # nothing has to be filled in: what may be said with it is folded
    is_no: bool  # its button says No
    is_consent: bool  # who changes the action agrees to it as well: it is done at once

    @property
    def is_exact_open(self) -> bool:
        """Whether the exact values were sent, or are asked for."""
        names = {one.name for one in (*self.folded, *self.exact)}
        return not names.isdisjoint(self.values) or not names.isdisjoint(self.wrong)


def answer_form(
    offer: Affordance,
    card: Card,
    leads_to: str,
    sent: Mapping[str, str] | None,
    wrong: Mapping[str, str],
) -> AnswerForm:
    """Return the form of an answer. `sent` are the texts of it that were sent, if it was."""
    key = keys_of(card).get(offer.name, "")
    shown, folded, exact = _parts(offer, answer_fields(offer.schema, card, sent or {}))
    fields = (*shown, *folded, *exact)
    is_bare = not needs_answer(offer.schema) and not any(one.value for one in fields)
    return AnswerForm(
        offer=offer,
        key=key,
        shown=shown,
        folded=folded,
        exact=exact,
        values={one.name: sent[one.name] for one in fields if one.name in sent} if sent else {},
        wrong=wrong if sent is not None else {},
        leads_to=leads_to,
        is_open=sent is not None or offer.name == "provide" or is_bare,
        is_bare=is_bare and sent is None,
        is_no=says_no(offer),
        is_consent=offer.name == "edit" and consent_of(card) is not None,
    )


def says_no(offer: Affordance) -> bool:
    """Whether the button of an answer says No, so that its reason says why not."""
    return offer.says.startswith("No,")


def consent_of(card: Card) -> Affordance | None:
    """Return the answer that agrees to the action of a card, None if none does."""
    return next((one for one in card.affordances if one.trigger == "execute"), None)


def answer_fields(
    schema: Mapping[str, Any], card: Card | None, texts: Mapping[str, str]
) -> list[FormField]:
    """Return the fields of an answer. Those of a capability are of the one that is named."""
    proposed = {**card.proposed, **(card.proposed.get("payload") or {})} if card else {}
    named = texts.get("capability") or str(proposed.get("capability") or "")
    return fields_of(for_capability(schema, named), proposed)


def fields_sent(
    offer: Affordance, card: Card | None, texts: Mapping[str, str]
) -> tuple[FormField, ...]:
    """Return the fields of that part of an answer which was sent."""
    shown, folded, exact = _parts(offer, answer_fields(offer.schema, card, texts))
    return exact if texts.get(PART) == EXACT else (*shown, *folded)


def _parts(
    offer: Affordance, fields: list[FormField]
) -> tuple[tuple[FormField, ...], tuple[FormField, ...], tuple[FormField, ...]]:
    """Return the fields of an answer that are in sight, that are folded, and that are exact."""
    main = text_field(offer.name)
    labels = {**LABELS, REASON: WHY_NOT if says_no(offer) else WHY}
    fields = [replace(one, label=labels.get(one.name, one.label)) for one in fields]
    words = tuple(one for one in fields if one.name == main or (one.required and not one.value))
    others = tuple(one for one in fields if one not in words)
    if main not in [one.name for one in words]:
        shown = tuple(
            one
            for one in fields
            if one.name.startswith(PARAMETERS) or one.required or one.name == REASON
        )
        folded = tuple(one for one in fields if one not in shown)
        # A form that has nothing to put in sight folds nothing away.
        return (shown, folded, ()) if shown else (folded, (), ())
    if any(one.value and not one.is_default for one in others):
        return words, (), others
    return words, others, ()
