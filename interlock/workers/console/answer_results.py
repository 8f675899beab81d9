"""What became of the answers of a person: what is done, what failed, what is still at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from interlock.kernel.errors import CallError
from interlock.kernel.event import words_of as event_words
from interlock.kernel.meaning import Meaning
from interlock.kernel.question import as_sentence
from interlock.kernel.record import Record
from interlock.kernel.shortened import shortened
from interlock.workers.client import Client
from interlock.workers.console.card_summary import FAILED_KINDS
from interlock.workers.console.plain_words import asked, name_words, value_words
from interlock.workers.engine.answer_schema import action_of
from interlock.workers.systems import words_of
from interlock.workers.terminal.page import StateName

ACTS_READ = 100  # of all people, the latest: who answered longer ago does not wait for it any more
AT_WORK_MS = 3_600_000
TITLE_LENGTH_MAX = 60
VALUES_LENGTH_MAX = 160
Tone = Literal["good", "bad", "busy", "calm"]


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """What became of a record that a person answered: "`title` `says`". `asks`: it has a card."""

    record_id: str
    title: str
    says: str
    tone: Tone
    asks: bool = False


def result_of(client: Client, record_id: str) -> AnswerResult | None:
    """Return what became of a record, None if there is none that the viewer may see."""
    try:
        record = client.show(record_id) if record_id else None
    except CallError:
        return None
    return _result(client, record) if record else None


def still_at_work(client: Client, answered: AnswerResult | None) -> Sequence[AnswerResult]:
    """Return the records that the viewer answered within an hour and that are at work.

    `answered` is the one that was answered last: who has proved no name sees that one only.
    """
    after_ms = client.now_ms() - AT_WORK_MS
    ids = [
        act.record_id
        for act in client.dispatch.acts.latest(ACTS_READ)
        if act.by == client.actor and act.at_ms > after_ms
    ]
    found = client.dispatch.views.records(ids, readable_by=client.machines)
    results = [_result(client, one) for one in found.values()]
    if answered and answered.record_id not in found:
        results.insert(0, answered)
    return [one for one in results if one.tone == "busy"]


def title_of(record: Record) -> str:
    """Return what people call a record: its title, or the beginning of its request."""
    text = record.title or " ".join(words_of(record.machine, record.data).request.split())
    return shortened(text, TITLE_LENGTH_MAX) or f"the {record.machine} {record.id}"


def _result(client: Client, record: Record) -> AnswerResult:
    title, state = title_of(record), StateName.of(record)
    if card := next(iter(client.open_cards.of([record])), None):
        if card.kind not in FAILED_KINDS:
            return AnswerResult(record.id, title, f"asks: {asked(card)}", "calm", asks=True)
        failure = card.failure or {}
        why = str(failure.get("detail") or failure.get("code") or "no reason was given")
        return AnswerResult(record.id, title, f"failed: {why.rstrip('.')}.", "bad", asks=True)
    match state.meaning:
        case Meaning.WORKS:
            return AnswerResult(record.id, title, "is being worked on.", "busy")
        case Meaning.DONE:
            done = _in_words(action_of(record.data), client.dispatch.views.now_ms())
            return AnswerResult(record.id, title, f"is done{done and f': {done}'}.", "good")
        case Meaning.FAILED:
            return AnswerResult(record.id, title, f"failed: it is {state.words}.", "bad")
    why = _why(client, record) if state.meaning is Meaning.ENDED else ""
    said = as_sentence(": ".join(filter(None, (f"is {state.words}", why))))
    return AnswerResult(record.id, title, said, "calm")


def _why(client: Client, record: Record) -> str:
    """Return the words with which a record was ended, as one line."""
    events = client.dispatch.views.events([(record.id, record.entered)])
    words = (one for event in events for one in event_words(event.payload, event.cause.reason))
    return shortened(" ".join("; ".join(words).split()), VALUES_LENGTH_MAX)


def _in_words(action: Mapping[str, Any], now_ms: int) -> str:
    """Say what was done, with its values in the order of the list: the shortest first."""
    name = name_words(str(action.get("capability") or ""))
    said = [
        f"{name_words(each)} {value_words(value, now_ms)}"
        for each, value in (action.get("parameters") or {}).items()
        if value not in (None, "", [], {})
    ]
    values = shortened(", ".join(sorted(said, key=len)), VALUES_LENGTH_MAX)
    return f"{name} with {values}" if values else name
