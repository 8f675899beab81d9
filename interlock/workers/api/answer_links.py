"""The pages of links that answer a card: one shows the question, and its button answers it.

Programs that scan mail open links. So opening one changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from functools import wraps
from html import escape

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from starlette.types import Scope

from interlock.kernel.errors import KernelError, StaleDecisionError, StoreError
from interlock.workers.api.access import count_by_address
from interlock.workers.client import Client
from interlock.workers.engine.answer_links import (
    PATH,
    AnswerLink,
    LinkRefusedError,
    link_of,
    op_id_of,
)
from interlock.workers.engine.card import Card
from interlock.workers.engine.sessions import LINK_PATH
from interlock.workers.remote.problems import kind_of

log = logging.getLogger(__name__)

router = APIRouter(include_in_schema=False)

GONE = 410
CODE = "link"  # in the log, beside the name of who answers
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex",
}
STYLE = ":root{color-scheme:light dark}body{font:1.1em/1.5 system-ui,sans-serif;max-width:40em;"
STYLE += "margin:3em auto;padding:0 1em;overflow-wrap:anywhere}h1{line-height:1.25}"
STYLE += "button{font:inherit;padding:.5em 1.5em}button::first-letter{text-transform:uppercase}"

# What follows in these addresses lets its reader answer a card, or sign in.
SECRET_PATHS = (f"{PATH}/", LINK_PATH, "/login/provider/back")
ACCESS_LOG = logging.getLogger("uvicorn.access")

Page = Callable[[str, Request], HTMLResponse]


class HiddenLinks(logging.Filter):
    """Leaves out of the lines of the access log what a link would let their reader answer."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite a line, and keep it."""
        if isinstance(record.args, tuple):
            record.args = tuple(map(_without_secret, record.args))
        return True


def _without_secret(word: object) -> object:
    """Return a word of a line; of a link that lets its reader act, only its beginning."""
    heads = (head for head in SECRET_PATHS if isinstance(word, str) and word.startswith(head))
    found = next(heads, "")
    return f"{found}..." if found else word


def is_secret(scope: Scope) -> bool:
    """Whether the address of a call lets its reader act: such a call is in no trace."""
    return str(scope.get("path", "")).startswith(SECRET_PATHS)


HIDDEN_LINKS = HiddenLinks()


def hide_links() -> None:
    """Let the access log of this process show no link; a second call changes nothing."""
    ACCESS_LOG.addFilter(HIDDEN_LINKS)


def _page(title: str, *paragraphs: str, form: str = "", status: int = 200) -> HTMLResponse:
    """Return a page. Titles and paragraphs are texts, which may come from anywhere."""
    text = "".join(f"<p>{escape(each)}</p>" for each in paragraphs)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f"<title>{escape(title)}</title><style>{STYLE}</style>"
    body = f"<main><h1>{escape(title)}</h1>{text}{form}</main>"
    return HTMLResponse(f'<!doctype html><html lang="en">{head}{body}', status, HEADERS)


def _guarded(page: Page) -> Page:
    """Let a page say in words why a link cannot be used."""

    @wraps(page)
    def shown(token: str, request: Request) -> HTMLResponse:
        # By address, so that nobody can try many.
        count_by_address(request.app.state, request)
        try:
            return page(token, request)
        except StaleDecisionError:
            sentence = "It was answered already, or it asks something else by now."
            return _page("This question is not open", sentence, status=GONE)
        except LinkRefusedError as refusal:
            return _page("This link cannot be used", f"{refusal}.", status=GONE)
        except StoreError as refusal:
            log.warning("an answer by a link failed: %s", refusal)
            sentence = "Interlock cannot reach its store. Try again in a moment."
            return _page("Not now", sentence, status=kind_of(refusal).status)
        except KernelError as refusal:
            status = kind_of(refusal).status
            return _page("This answer was refused", f"{refusal}.", status=status)

    return shown


@router.get(f"{PATH}/{{token}}")
@_guarded
def ask(token: str, request: Request) -> HTMLResponse:
    """Show what is asked, and the one answer of this link."""
    client, link = _answering(token, request)
    card = _card(client, link)
    button = f'<form method="post"><button>{escape(link.choice)}</button></form>'
    return _page(card.title, card.question, f"You answer as {link.person}.", form=button)


@router.post(f"{PATH}/{{token}}")
@_guarded
def answer(token: str, request: Request) -> HTMLResponse:
    """Give the answer of this link. A second use changes nothing, and shows the same."""
    client, link = _answering(token, request)
    op_id = op_id_of(token)
    record = client.decide(link.record_id, link.choice, proposal=link.proposal, op_id=op_id)
    sentence = f"{link.person} answered {link.choice}. {record.id} is {record.state} now."
    return _page("Thank you", sentence)


def _answering(token: str, request: Request) -> tuple[Client, AnswerLink]:
    """Return a client that acts as the person of a link, and the link."""
    client: Client = copy(request.app.state.client)
    dispatch = client.dispatch
    link = link_of(token, dispatch.link_key, dispatch.views.now_ms() / 1_000)
    client.actor, client.codes = link.person, (CODE,)
    return client, link


def _card(client: Client, link: AnswerLink) -> Card:
    """Return the card that a link answers. Raises StaleDecisionError if it is not open."""
    for card in client.cards_of(link.record_id):
        offered = [each.name for each in card.affordances]
        if card.proposal == link.proposal and link.choice in offered:
            return card
    raise StaleDecisionError(link.proposal, None)
