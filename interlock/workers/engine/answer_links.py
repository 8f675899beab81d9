"""Links that answer a card: each gives one choice, once, as one person, for a limited time.

A link is signed, and names what it answers. So nothing is kept of it, and it is void as soon as the
card is answered or asks something else.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from hashlib import sha256
from typing import Any

from interlock.kernel.errors import CallError
from interlock.workers.engine.answer_commands import needs_answer
from interlock.workers.engine.records import Records

LIFETIME_S = 86_400
PATH = "/answers"
TOKEN_LENGTH_MAX = 2_000


class LinkRefusedError(CallError):
    """A link is not one of this deployment, or its time is over."""


@dataclass(frozen=True, slots=True)
class AnswerLink:
    """What a link answers, as whom, and until when (seconds since the epoch, by the store)."""

    record_id: str
    proposal: str
    choice: str
    person: str
    expires_s: int

    def token(self, key: bytes) -> str:
        """Return the link as a text that nobody without the key can make."""
        return _signed(json.dumps(astuple(self), separators=(",", ":")).encode(), key)


def link_of(token: str, key: bytes, now_s: float) -> AnswerLink:
    """Return the link with this token. Raises LinkRefusedError.

    No other text is the same link, though Python's decoder overlooks some characters: the op-id of
    an answer follows from the text.
    """
    try:
        fields = urlsafe_b64decode(token[:TOKEN_LENGTH_MAX].partition(".")[0] + "==")
    except ValueError:
        fields = b""
    if not hmac.compare_digest(token.encode(errors="replace"), _signed(fields, key).encode()):
        raise LinkRefusedError("this link is not one of ours; perhaps it was cut off")
    link = AnswerLink(*json.loads(fields))
    if now_s >= link.expires_s:
        raise LinkRefusedError("the time of this link is over")
    return link


def op_id_of(token: str) -> str:
    """Return the op-id of an answer by a link, with which a second use changes nothing."""
    return f"link:{sha256(token.encode()).hexdigest()[:32]}"


def answer_links(records: Records, person: str) -> AnswerLinks | None:
    """Return what makes the links of one message, which answer as this person for a day.

    None where INTERLOCK_PUBLIC_URL does not say how people reach this deployment.
    """
    settings = records.settings
    if settings.public_url is None:
        return None
    # A second use is known as one for as long as the store keeps the outcomes of calls.
    lifetime_s = min(LIFETIME_S, settings.op_window_s)
    return AnswerLinks(
        address=settings.public_url.rstrip("/"),
        key=records.dispatch.link_key,
        person=person,
        expires_s=int(records.now_ms() / 1_000 + lifetime_s),
    )


@dataclass(frozen=True, slots=True)
class AnswerLinks:
    """Makes the links of one message, which all end at the same time."""

    address: str
    key: bytes
    person: str
    expires_s: int

    def add_to(self, card: dict[str, Any]) -> dict[str, Any]:
        """Return a card in which each choice that needs no further answer has its `link`."""
        offers = [self._linked(card, offer) for offer in card["affordances"]]
        return {**card, "affordances": offers}

    def _linked(self, card: Mapping[str, Any], offer: Mapping[str, Any]) -> Mapping[str, Any]:
        if needs_answer(offer["schema"]):
            return offer
        named = (card["record_id"], card["proposal"], offer["name"])
        token = AnswerLink(*named, self.person, self.expires_s).token(self.key)
        return {**offer, "link": f"{self.address}{PATH}/{token}"}


def _signed(fields: bytes, key: bytes) -> str:
    digest = hmac.digest(key, b"answer-link " + fields, "sha256")
    return f"{_text(fields)}.{_text(digest)}"


def _text(value: bytes) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")
