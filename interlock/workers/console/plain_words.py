"""Says the values of an action, and what a card is about, as people say them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from interlock.kernel.question import action_line
from interlock.workers import text
from interlock.workers.engine.card import Affordance, Card
from interlock.workers.text import is_said, visible_line

NEAR = {-1: "yesterday", 0: "today", 1: "tomorrow"}
DAYS_SAID_MAX = 60  # a day that is further away is told in months
DAYS_OF_MONTH = 30
# Fields of a proposal that are for programs, or that a card shows in another way.
UNSHOWN = ("id", "confidence", "origin", "options", "blocked_on", "prompt", "model")


def asked(card: Card) -> str:
    """Return the question of a card; an action in it is called by its name, without its values."""
    action = action_of_card(card)
    if not action:
        return card.question
    exact = visible_line(action_line(action))
    return card.question.replace(exact, f"“{name_words(str(action['capability']))}”")


def says_name(offer: Affordance) -> bool:
    """Whether a choice says its own name, because its table has no words for it."""
    return offer.says.casefold() == name_words(offer.name).casefold()


def rest_of_proposal(card: Card, now_ms: int) -> Iterator[tuple[str, str]]:
    """Yield what is proposed that the question does not say, in words; no action is in it."""
    if action_of_card(card):
        return
    payload = card.proposed.get("payload")
    proposed = payload if isinstance(payload, Mapping) else card.proposed
    for name, value in proposed.items():
        said = value_words(value, now_ms)
        if (
            value not in (None, "", [], {})
            and name not in UNSHOWN
            and not is_said(said, [card.question])
        ):
            yield name_words(name), said


def action_of_card(card: Card) -> Mapping[str, Any]:
    """Return the action that a card proposes, or nothing."""
    payload = card.proposed.get("payload")
    return payload if isinstance(payload, Mapping) and payload.get("capability") else {}


def name_words(name: str) -> str:
    """Return a name such as `add_task` as words."""
    return name.replace("_", " ")


def value_words(value: Any, now_ms: int) -> str:
    """Return a value as people say it: a day with its weekday, and how far away it is."""
    today = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms)).date()
    return text.value_words(value, lambda day: f" ({_distance((day - today).days)})")


def exact_value(value: Any) -> str:
    """Return a value as it is used: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def weekday_words(value: str) -> str:
    """Return a date or a time with its weekday, '' for no text."""
    return text.value_words(value, lambda _: "") if value else ""


def _distance(days: int) -> str:
    """Return in words how many days away a day is."""
    if days in NEAR:
        return NEAR[days]
    number, unit = abs(days), "days"
    if number > DAYS_SAID_MAX:
        number, unit = number // DAYS_OF_MONTH, "months"
    return f"in {number} {unit}" if days > 0 else f"{number} {unit} ago"
