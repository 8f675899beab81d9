"""The page of a record's cards: the question, what an answer would do, the evidence, the forms."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from fastapi import Request, Response

from interlock.kernel.blame import blamed
from interlock.kernel.errors import AnotherVersionError, CallError, StoreError
from interlock.kernel.event import CARD_CLAIMED, CARD_RELEASED, START, Event, Note
from interlock.kernel.record import Record
from interlock.kernel.shown_stage import shown_stage
from interlock.workers.api.records import POSITION
from interlock.workers.client import Client
from interlock.workers.console.answer_forms import AnswerForm, answer_form
from interlock.workers.console.answer_results import result_of
from interlock.workers.console.card_summary import CardSummary, summary_of
from interlock.workers.console.consequences import Consequences, consequences, leads_to
from interlock.workers.console.inbox_order import InboxList, neighbours
from interlock.workers.console.live import is_renewal, looked_up
from interlock.workers.console.plain_words import rest_of_proposal, says_name
from interlock.workers.console.record_look import used_of
from interlock.workers.console.render import page
from interlock.workers.console.system_pages import FAILED
from interlock.workers.console.timeline import LogRow, timeline
from interlock.workers.engine import diff_calls
from interlock.workers.engine.answer_commands import example_answer
from interlock.workers.engine.card import OBSTACLE, QUARANTINE, Affordance, Card
from interlock.workers.ops.history_page import CARD_NOTES, ROUTINE_NOTES
from interlock.workers.supervision.page import with_live_parts
from interlock.workers.systems import evidence
from interlock.workers.terminal.page import LivePart, Part, Section, Sentence, Verbatim
from interlock.workers.text import is_said

log = logging.getLogger(__name__)

LINES, LINES_READ = 8, 30  # shown of the log, and read, as some say nothing to people
ROUTINE = (*ROUTINE_NOTES, *CARD_NOTES)
NEWS_MAX = 30
SAID_IN_WORDS = ("provided", "redirected")
CLAIMS = (CARD_CLAIMED, CARD_RELEASED)
HIDDEN = ("proposal", "choice", "suggested", "at_once", "seen", "list", "from", "part", "sure")


@dataclass(frozen=True, slots=True)
class RefusedAnswer:
    """Why an answer was not given: a sentence, and what is wrong with fields, by their names."""

    sentence: str
    status: int
    wrong: Mapping[str, str] = field(default_factory=dict)


NO_PROBLEM = RefusedAnswer("", 200)


@dataclass(frozen=True, slots=True)
class CardView:
    """A card with what an answer to it would do. Only others may give answers in `withheld`.

    `summary` is what the list shows of it, `rest` what is proposed and the question does not say.
    """

    card: Card
    summary: CardSummary
    rest: tuple[tuple[str, str], ...]
    consequences: Consequences | None
    answers: tuple[AnswerForm, ...]
    withheld: tuple[str, ...] = ()


def show_cards(
    request: Request,
    client: Client,
    record_id: str,
    *,
    texts: Mapping[str, str],
    problem: RefusedAnswer = NO_PROBLEM,
) -> Response:
    """Return the page of a record's open cards.

    `texts` are those of a form that was sent, and are kept in it. With `seen`, the position in the
    log up to which a person has seen the record, the page begins with what has happened since. With
    `list`, the query of a list of cards, it leads to the card before and to the one after it in
    that list.
    """
    shown = InboxList.of_query(texts.get("list", ""))

    def read() -> dict[str, Any]:
        return _look(client, client.show(record_id), texts, problem.wrong)

    seen = looked_up(request, client, read)
    if not is_renewal(request):
        seen["views"] = [_offered(client, seen["record"], view) for view in seen["views"]]
    kept = {name: text for name, text in texts.items() if text.strip() and name not in HIDDEN}
    answers = [answer for view in seen["views"] for answer in view.answers]
    is_open = any(answer.is_open for answer in answers if answer.values)
    # A page that looks for news shows no evidence, which takes long to read.
    found = [] if is_renewal(request) else _evidence(client, seen["record"])
    return page(
        request,
        "card.html",
        problem.status,
        problem=problem.sentence,
        kept={} if is_open or not problem.sentence else kept,
        evidence={
            place: [each for each in found if each.place == place]
            for place in ("first", "", "wide")
        },
        shown=shown,
        place=None if is_renewal(request) else neighbours(client, record_id, shown),
        answered=result_of(client, request.query_params.get("answered", "")),
        **seen,
    )


def _look(
    client: Client, record: Record, texts: Mapping[str, str], wrong: Mapping[str, str]
) -> dict[str, Any]:
    """Read what is the same for all who look at the cards of a record."""
    views, machine = client.dispatch.views, client.dispatch.lifecycle.machine(record.machine)
    reminders = (
        one for one in record.timers if _is_reminder(shown_stage(machine, record.state), one.name)
    )
    latest = views.latest([record.id], LINES_READ)[record.id]
    # What was written after the record was read is not on the page, so it is news.
    until = next((one.position for one in latest if _is_before(one, record)), START)
    seen = texts.get("seen", "")
    is_position = re.fullmatch(POSITION, seen)
    above = [record.parent] if record.parent else []
    parents = views.records(above, readable_by=client.machines)
    return {
        "record": record,
        "views": [
            _view(client, record, card, texts, wrong) for card in client.open_cards.of([record])
        ],
        "news": _news(client, record, seen) if is_position else [],
        # A page that is renewed keeps its news until the person goes on.
        "seen": seen if is_position else until,
        "reminder": next(reminders, None),
        "parent": next(iter(parents.values()), None),
        "costs": used_of(record.counters),
        "wrote": _who_wrote(latest),
        "rows": timeline([line for line in latest if not _is_routine(line)])[:LINES],
        "now_ms": views.now_ms(),
    }


def _view(
    client: Client,
    record: Record,
    card: Card,
    texts: Mapping[str, str],
    wrong: Mapping[str, str],
) -> CardView:
    machine = client.dispatch.lifecycle.machine(record.machine)
    now_ms = client.dispatch.views.now_ms()
    answers = [
        answer_form(
            offer,
            card,
            # What a choice says in words of its own says where it leads.
            leads_to(machine, record, offer.trigger) if says_name(offer) else "",
            # After a stale answer, another card may take what was written as well.
            texts if texts.get("choice") == offer.name else None,
            wrong,
        )
        for offer in card.affordances
    ]
    summary = summary_of(card, record, client.actor, now_ms)
    rest = tuple(rest_of_proposal(card, now_ms))
    return CardView(card, summary, rest, consequences(client, record, card), tuple(answers))


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
    except (AnotherVersionError, CallError):
        return True


def _news(client: Client, record: Record, seen: str) -> list[LogRow]:
    """Return what has happened since a position in the log, and who has claimed the cards."""
    lines = client.dispatch.views.log(record.id, after=seen)
    news = (
        line
        for line in lines
        if isinstance(line, Event) or (isinstance(line, Note) and line.kind in CLAIMS)
    )
    return timeline(list(islice(news, NEWS_MAX))[::-1])


def _is_before(line: Event | Note, record: Record) -> bool:
    """Whether a line of the log was written before the next version of this record."""
    return int(line.position.partition("-")[0]) <= record.version


def _who_wrote(lines: Sequence[Event | Note]) -> str:
    """Return who answered in words last, the newest line of a log first; '' if nobody did."""
    answers = (one for one in lines if isinstance(one, Event) and one.trigger in SAID_IN_WORDS)
    return next((one.cause.actor for one in answers), "")


def _is_routine(line: Event | Note) -> bool:
    return isinstance(line, Note) and line.kind in ROUTINE


def _evidence(client: Client, record: Record) -> list[Section]:
    """Return the evidence beside a record's cards; they are shown also if that cannot be read."""
    try:
        return without_repeats(
            with_live_parts(client, evidence(client, record), diff_calls.CARD_LIMITS)
        )
    except StoreError:
        raise
    except Exception as failure:
        log.exception("the evidence of %s could not be shown", record.id)
        return [Section("Evidence", [Sentence(f"{FAILED} {blamed(failure)}", "soft")])]


def without_repeats(sections: Sequence[Section]) -> list[Section]:
    """Drop the sections with `is_once` whose text a section with a `place` has too."""
    texts = [text for one in sections if one.place for text in _texts_of(one.parts)]
    return [
        one
        for one in sections
        if not (one.is_once and all(is_said(text, texts) for text in _texts_of(one.parts)))
    ]


def _texts_of(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        match part:
            case Sentence(text=str() as text) | Verbatim(text=text):
                yield text
            case Section(parts=inner) | LivePart(parts=inner):
                yield from _texts_of(inner)


def _is_reminder(stage: Any, name: str) -> bool:
    timer = stage.timer(name)
    return timer is not None and timer.trigger is None and name == "reminder"
