"""The page of a record's cards: the question, what an answer would do, the evidence, the forms."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from fastapi import Request, Response

from interlock.kernel.blame import blamed
from interlock.kernel.errors import CallError, StoreError
from interlock.kernel.event import CARD_CLAIMED, CARD_RELEASED, Event, Note
from interlock.kernel.record import Record
from interlock.workers.client import Client
from interlock.workers.console.consequences import Consequences, consequences, leads_to
from interlock.workers.console.forms import FormField, fields_of, for_capability
from interlock.workers.console.live import is_renewal, looked_up
from interlock.workers.console.record_look import used_of
from interlock.workers.console.render import page, words
from interlock.workers.console.system_pages import FAILED
from interlock.workers.console.timeline import LogRow, timeline
from interlock.workers.engine.answer_commands import example_answer, needs_answer
from interlock.workers.engine.card import OBSTACLE, QUARANTINE, Affordance, Card
from interlock.workers.ops.screen import CARD_NOTES, ROUTINE_NOTES
from interlock.workers.systems import evidence
from interlock.workers.terminal.page import Section, Sentence

log = logging.getLogger(__name__)

LINES, LINES_READ = 8, 30  # shown of the log, and read, as some say nothing to people
ROUTINE = (*ROUTINE_NOTES, *CARD_NOTES)
NEWS_MAX = 30
# The answers that say no, in the order in which the key `r` chooses one.
NO = ("reject", "drop", "skip", "terminate", "cancel")
CHANGE = ("edit", "redirect")
CLAIMS = (CARD_CLAIMED, CARD_RELEASED)
VERSION_LENGTH_MAX = 15
HIDDEN = ("proposal", "choice", "seen")


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """One possible answer, with its form. `key` chooses it; `asks` is what is asked once before.

    `wrong` has what is wrong with the fields of a form that was sent, by their names.
    """

    offer: Affordance
    key: str
    fields: tuple[FormField, ...]
    values: Mapping[str, str]
    wrong: Mapping[str, str]
    leads_to: str
    asks: str
    is_shown: bool
    needs: bool  # something must be filled in
    is_short: bool  # its fields are all optional and empty: its button comes first


@dataclass(frozen=True, slots=True)
class CardView:
    """A card with what an answer to it would do. Only others may give answers in `withheld`."""

    card: Card
    consequences: Consequences | None
    answers: tuple[AnswerForm, ...]
    withheld: tuple[str, ...] = ()


def show_cards(
    request: Request,
    client: Client,
    record_id: str,
    *,
    texts: Mapping[str, str],
    problem: str = "",
    wrong: Mapping[str, str] = {},
    status: int = 200,
) -> Response:
    """Return the page of a record's open cards.

    `texts` are those of a form that was sent, and are kept in it; `wrong` says what is wrong with
    which of its fields. With `seen`, the version of the record that was shown before, the page
    begins with what has happened since.
    """

    def read() -> dict[str, Any]:
        return _look(client, client.show(record_id), texts, wrong)

    seen = looked_up(request, client, read)
    if not is_renewal(request):
        seen["views"] = [_offered(client, seen["record"], view) for view in seen["views"]]
    kept = {name: text for name, text in texts.items() if text.strip() and name not in HIDDEN}
    answers = [answer for view in seen["views"] for answer in view.answers]
    is_open = any(answer.is_shown for answer in answers if answer.values)
    return page(
        request,
        "card.html",
        status,
        problem=problem,
        kept={} if is_open or not problem else kept,
        # A page that looks for news shows no evidence, which takes long to read.
        evidence=[] if is_renewal(request) else _evidence(client, seen["record"]),
        **seen,
    )


def _look(
    client: Client, record: Record, texts: Mapping[str, str], wrong: Mapping[str, str]
) -> dict[str, Any]:
    """Read what is the same for all who look at the cards of a record."""
    views, machine = client.dispatch.views, client.dispatch.lifecycle.machine(record.machine)
    reminders = (
        one for one in record.timers if _is_reminder(machine.stage(record.state), one.name)
    )
    latest = views.latest([record.id], LINES_READ)[record.id]
    above = [record.parent] if record.parent else []
    parents = views.records(above, readable_by=client.machines)
    return {
        "record": record,
        "views": [
            _view(client, record, card, texts, wrong) for card in client.open_cards.of([record])
        ],
        "news": _news(client, record, texts.get("seen", "")),
        "reminder": next(reminders, None),
        "parent": next(iter(parents.values()), None),
        "costs": used_of(record.counters),
        "rows": timeline([line for line in latest if not _is_routine(line)])[:LINES],
        "now_ms": views.now_ms(),
    }


def answer_fields(
    schema: Mapping[str, Any], card: Card | None, texts: Mapping[str, str]
) -> list[FormField]:
    """Return the fields of an answer. Those of a capability are of the one that is named."""
    proposed = {**card.proposed, **(card.proposed.get("payload") or {})} if card else {}
    named = texts.get("capability") or str(proposed.get("capability") or "")
    return fields_of(for_capability(schema, named), proposed)


def _view(
    client: Client,
    record: Record,
    card: Card,
    texts: Mapping[str, str],
    wrong: Mapping[str, str],
) -> CardView:
    machine = client.dispatch.lifecycle.machine(record.machine)
    found, keys = consequences(client, record, card), _keys(card)
    answers = []
    for offer in card.affordances:
        # After a stale answer, another card may take what was written as well.
        was_sent = texts.get("choice") == offer.name
        sent = texts if was_sent else {}
        fields = answer_fields(offer.schema, card, sent)
        key = keys.get(offer.name, "")
        what = f"{card.question} {found.warning}" if found and key == "a" else ""
        answers.append(
            AnswerForm(
                offer=offer,
                key=key,
                fields=tuple(fields),
                values={one.name: sent.get(one.name, one.value) for one in fields}
                if was_sent
                else {},
                wrong=wrong if was_sent else {},
                leads_to=leads_to(machine, record, offer.trigger),
                asks=f"{words(offer.name).capitalize()} “{card.title}”? {what}".strip(),
                is_shown=was_sent or key == "a" or not fields,
                needs=needs_answer(offer.schema) and not any(one.value for one in fields),
                is_short=bool(fields) and key == "a" and not was_sent and _is_bare(offer, fields),
            )
        )
    return CardView(card, found, tuple(answers))


def _offered(client: Client, record: Record, view: CardView) -> CardView:
    """Return a card with those forms only that are not withheld from who looks."""
    withheld = [
        one.offer.name for one in view.answers if is_withheld(client, record, view.card, one.offer)
    ]
    answers = tuple(one for one in view.answers if one.offer.name not in withheld)
    return replace(view, answers=answers, withheld=tuple(withheld))


def is_withheld(client: Client, record: Record, card: Card, offer: Affordance) -> bool:
    """Whether an answer is refused to who looks, because the card has its own deciders.

    Some answers to such a card everybody may give: the table says which.
    """
    if not card.deciders or client.actor in card.deciders or card.kind in (QUARANTINE, OBSTACLE):
        return False
    example = example_answer(offer.name, offer.schema, card.proposed)
    try:
        return not client.explain(record.id, offer.name, example).target
    except CallError:
        return True


def _is_bare(offer: Affordance, fields: Sequence[FormField]) -> bool:
    """Return whether an answer can be given with no field filled in, and none is proposed."""
    return not needs_answer(offer.schema) and not any(one.value for one in fields)


def _keys(card: Card) -> dict[str, str]:
    """Return the key of each answer that has one: a agrees, e changes, r says no."""
    names = [offer.name for offer in card.affordances]
    found = {names[0]: "a"} if names else {}
    for key, choices in (("e", CHANGE), ("r", NO)):
        chosen = next((name for name in choices if name in names and name not in found), None)
        found |= {chosen: key} if chosen else {}
    return found


def _news(client: Client, record: Record, seen: str) -> list[LogRow]:
    """Return what has happened since a version of a record, and who has claimed its cards."""
    if not (seen.isascii() and seen.isdigit() and len(seen) <= VERSION_LENGTH_MAX):
        return []
    lines = client.dispatch.views.log(record.id, after=f"{seen}-0")
    news = (
        line
        for line in lines
        if isinstance(line, Event) or (isinstance(line, Note) and line.kind in CLAIMS)
    )
    return timeline(list(islice(news, NEWS_MAX))[::-1])


def _is_routine(line: Event | Note) -> bool:
    return isinstance(line, Note) and line.kind in ROUTINE


def _evidence(client: Client, record: Record) -> list[Section]:
    """Return the evidence beside a record's cards; they are shown also if that cannot be read."""
    try:
        return evidence(client, record)
    except StoreError:
        raise
    except Exception as failure:
        log.exception("the evidence of %s could not be shown", record.id)
        return [Section("Evidence", [Sentence(f"{FAILED} {blamed(failure)}", "soft")])]


def _is_reminder(stage: Any, name: str) -> bool:
    timer = stage.timer(name)
    return timer is not None and timer.trigger is None and name == "reminder"
