"""A card at a glance: what it asks in words, its risk, and the answers that one click gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from interlock.kernel.record import Record
from interlock.kernel.scales import Level
from interlock.workers.console.plain_words import (
    action_of_card,
    asked,
    exact_value,
    name_words,
    value_words,
)
from interlock.workers.engine.answer_commands import needs_answer
from interlock.workers.engine.card import Card, Suggestion
from interlock.workers.engine.system import RecordWords
from interlock.workers.systems import words_of
from interlock.workers.terminal.cards import CONSENT, doubt_words
from interlock.workers.text import is_said

# The answers that say no, in the order in which the key `r` chooses one.
NO = ("reject", "drop", "skip", "terminate", "cancel")
# The answers that say something else, in the order in which the key `e` chooses one.
CHANGE = ("edit", "provide", "redirect")
FAILED_KINDS = ("redirect", "cleanup_failure")  # of cards that ask what now, after a failure
SUGGESTED, CHOICE = "suggested", "choice"  # the fields of a form that name an answer
REQUEST_SHOWN_MAX = 200
SHORT = 24  # the letters that a button of the list has at most


@dataclass(frozen=True, slots=True)
class RiskMark:
    """What has to be seen of a card at a glance: that it cannot be undone, or a doubt."""

    text: str
    tone: Literal["bad", "ask"]


@dataclass(frozen=True, slots=True)
class QuickAnswer:
    """An answer that one click gives. `says` is all that its button says, `short` what fits.

    A form sends it as the field `name` with this `value`.
    """

    name: str
    value: str
    key: str
    says: str
    short: str
    asks_again: bool


@dataclass(frozen=True, slots=True)
class CardSummary:
    """A card as a list shows it. `title` is '' where the question says it already.

    `values` are those of the action that waits, in words, the shortest first. `is_exact`: they are
    shown as they are used, because the action cannot be undone. `has_failed`: it asks what now,
    after a failure. `request` is what was asked for, in its own words, and `sender` who asked.
    """

    card: Card
    now_ms: int
    asks: str
    title: str
    values: tuple[tuple[str, str], ...]
    is_exact: bool
    marks: tuple[RiskMark, ...]
    quick: tuple[QuickAnswer, ...]
    needs_words: bool
    has_failed: bool
    request: str
    sender: str


def summary_of(card: Card, record: Record | None, actor: str, now_ms: int) -> CardSummary:
    """Return what a list shows of a card to who looks, and of its record if that was read."""
    action = action_of_card(card) if card.kind == CONSENT else {}
    parameters: Mapping[str, Any] = action.get("parameters") or {}
    is_final = any(offer.final for offer in card.affordances if offer.trigger == "execute")
    asks, keys = asked(card), keys_of(card)
    may_answer = not card.deciders or actor in card.deciders
    bare = [
        QuickAnswer(SUGGESTED, str(at), "a", one.says, _short(one.says), asks_again=False)
        for at, one in enumerate(card.suggestions)
        if is_call(one)
    ]
    bare += [
        QuickAnswer(CHOICE, offer.name, key, offer.says, _short(offer.says), bool(offer.final))
        for offer in card.affordances
        if (key := keys.get(offer.name)) in ("a", "r") and not needs_answer(offer.schema)
    ]
    words = words_of(record.machine, record.data) if record else RecordWords()
    request = words.request or card.title
    said = (
        (name_words(name), exact_value(value) if is_final else value_words(value, now_ms))
        for name, value in parameters.items()
        if value not in (None, "", [], {})
    )
    return CardSummary(
        card=card,
        now_ms=now_ms,
        asks=asks,
        title="" if card.title == card.record_id or is_said(card.title, [asks]) else card.title,
        values=tuple(sorted(said, key=lambda one: len(one[1]))),
        is_exact=is_final,
        marks=tuple(marks_of(card)),
        quick=tuple(bare) if may_answer else (),
        needs_words="a" not in {one.key for one in bare},
        has_failed=card.kind in FAILED_KINDS,
        request="" if is_said(request, [asks, card.record_id]) else _beginning(request),
        sender=words.sender,
    )


def marks_of(card: Card) -> list[RiskMark]:
    """Return what has to be seen of a card at a glance."""
    found = []
    action = action_of_card(card)
    if card.kind == CONSENT and action:
        level = Level(str(action.get("irreversibility")))
        if level is Level.HIGH:
            found.append(RiskMark("cannot be undone", "bad"))
        elif level is Level.MEDIUM:
            found.append(RiskMark("hard to undo", "ask"))
    if doubt := doubt_words(card.proposed.get("confidence")):
        found.append(RiskMark(doubt, "ask"))
    return found


def is_call(suggested: Suggestion) -> bool:
    """Whether a suggested answer is a whole call: who picks it agrees to exactly that."""
    return bool(suggested.answer.get("capability"))


def keys_of(card: Card) -> dict[str, str]:
    """Return the key of each answer that has one: a agrees, e says something else, r refuses.

    The first answer agrees if it needs no words and refuses nothing.
    """
    first = next(iter(card.affordances), None)
    agrees = first and first.name not in (*NO, *CHANGE) and not needs_answer(first.schema)
    found = {first.name: "a"} if first and agrees else {}
    names = [offer.name for offer in card.affordances]
    for key, choices in (("e", CHANGE), ("r", NO)):
        chosen = next((name for name in choices if name in names and name not in found), None)
        found |= {chosen: key} if chosen else {}
    return found


def _short(says: str) -> str:
    short = says.partition(":")[0]
    if len(short) > SHORT and ", " in short:
        short = short.rpartition(", ")[0]
    return short if len(short) <= SHORT else f"{short[: SHORT - 1]}…"


def _beginning(request: str) -> str:
    """Return the title of a request and the beginning of its text, as one line."""
    title, _, text = request.partition("\n\n")
    colon = ":" if text and title[-1:].isalnum() else ""
    line = " ".join(f"{title}{colon} {text}".split())
    return line if len(line) <= REQUEST_SHOWN_MAX else f"{line[:REQUEST_SHOWN_MAX]}…"
