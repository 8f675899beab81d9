"""Lines of mail that are reports, and the reasons for which others are rejected."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.systems.loops.machines.loop.limits import MAIL_LENGTH_MAX
from interlock.workers.specs.json_line import NAME_LENGTH_MAX, TEXT_LENGTH_MAX
from interlock.workers.supervision.reports import MailSent
from tests.any_text import any_text
from tests.workers.supervision.streams.test_interlock import (
    JSON,
    is_well_formed,
    line,
    read,
    rejection,
)

FIELDS = ["to", "text", "kind", "urgent", "thread", "reply_to", "id", "type"]


def mail(**fields: Any) -> bytes:
    return line(**{"type": "mail", "to": "smith", "text": "mend it", **fields})


@pytest.mark.parametrize(
    ("given_line", "report"),
    [
        (mail(), MailSent("smith", "mend it")),
        (mail(urgent=True), MailSent("smith", "mend it", urgent=True)),
        (mail(urgent=False), MailSent("smith", "mend it", urgent=False)),
        (
            mail(kind="task", urgent=True, thread="barn", reply_to="1-0", id="a"),
            MailSent(
                "smith", "mend it", "task", urgent=True, thread="barn", reply_to="1-0", id="a"
            ),
        ),
        (mail(text="two\nlines \u00e4"), MailSent("smith", "two\nlines \u00e4")),
        (mail(text="x" * TEXT_LENGTH_MAX), MailSent("smith", "x" * TEXT_LENGTH_MAX)),
    ],
    ids=lambda given: repr(given)[:60],
)
def test_a_line_of_mail_is_its_report(given_line: bytes, report: MailSent) -> None:
    assert read(given_line) == report


def test_a_line_takes_as_long_a_text_as_an_inbox() -> None:
    assert TEXT_LENGTH_MAX == MAIL_LENGTH_MAX


@pytest.mark.parametrize(
    ("given_line", "sentence"),
    [
        (line(type="mail", text="mend it"), "mail: it has no to; write it"),
        (line(type="mail", to="smith"), "mail: it has no text; write it"),
        (mail(to=""), "mail: to: '': it is empty; write a text"),
        (mail(to=["smith", "scout"]), "mail: to: ['smith', 'scout']: write a text"),
        (mail(to="s" * (NAME_LENGTH_MAX + 1)), "it has 201 characters, at most 200"),
        (mail(text=None), "mail: text: None: write a text"),
        (mail(text=" "), "mail: text: ' ': it is empty; write a text"),
        (mail(text="x" * (TEXT_LENGTH_MAX + 1)), "it has 16001 characters, at most 16000"),
        (mail(text="a\u0000b"), "has a NUL character"),
        (mail(urgent=1), "mail: urgent: 1: write true or false"),
        (mail(urgent="yes"), "mail: urgent: 'yes': write true or false"),
        (mail(urgent=None), "mail: urgent: None: write true or false"),
        (mail(kind=[3]), "mail: kind: [3]: write a text"),
        (mail(kind="k" * (NAME_LENGTH_MAX + 1)), "it has 201 characters, at most 200"),
        (mail(thread={}), "mail: thread: {}: write a text"),
        (mail(thread="t" * (NAME_LENGTH_MAX + 1)), "it has 201 characters, at most 200"),
        (mail(reply_to={}), "mail: reply_to: {}: write a text"),
        (mail(subject="the barn"), "mail: 'subject' is not a field here; known: to, text"),
        (mail(sender="scout"), "mail: 'sender' is not a field here; known: to, text"),
    ],
    ids=lambda given: repr(given)[:60],
)
def test_a_line_that_is_no_mail_is_rejected_with_one_sentence(
    given_line: bytes, sentence: str
) -> None:
    assert sentence in rejection(given_line)
    assert len(rejection(given_line)) < 300, "no mail is repeated whole"


@given(st.dictionaries(st.sampled_from(FIELDS) | any_text(), JSON))
def test_any_line_of_mail_is_a_report_or_rejected(fields: dict[str, Any]) -> None:
    assert is_well_formed(read(mail(**fields)))
