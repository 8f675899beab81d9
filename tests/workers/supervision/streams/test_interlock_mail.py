"""Lines of mail that are reports, and the reasons for which others are rejected."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.machines.loops.loop.payloads import MAIL_LENGTH_MAX
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

FIELDS = ["to", "text", "kind", "urgent", "thread", "reply_to", "type"]


def mail(**fields: Any) -> bytes:
    return line(**{"type": "mail", "to": "smith", "text": "mend it", **fields})


@pytest.mark.parametrize(
    ("given_line", "report"),
    [
        (mail(), MailSent("smith", "mend it")),
        (mail(urgent=True), MailSent("smith", "mend it", urgent=True)),
        (mail(urgent=False), MailSent("smith", "mend it", urgent=False)),
        (
            mail(kind="task", urgent=True, thread="barn", reply_to="1-0"),
            MailSent("smith", "mend it", "task", urgent=True, thread="barn", reply_to="1-0"),
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
        (line(type="mail", text="mend it"), "mail needs the field 'to'"),
        (line(type="mail", to="smith"), "mail needs the field 'text'"),
        (mail(to=""), "mail: to must not be empty"),
        (mail(to=["smith", "scout"]), "mail: to must be text, it is ['smith', 'scout']"),
        (mail(to="s" * (NAME_LENGTH_MAX + 1)), "mail: to has 201 characters, at most 200"),
        (mail(text=None), "mail: text must be text, it is None"),
        (mail(text=" "), "mail: text must not be empty"),
        (mail(text="x" * (TEXT_LENGTH_MAX + 1)), "mail: text has 16001 characters, at most 16000"),
        (mail(text="a\u0000b"), "has a NUL character"),
        (mail(urgent=1), "mail: urgent must be true or false, it is 1"),
        (mail(urgent="yes"), "mail: urgent must be true or false, it is 'yes'"),
        (mail(urgent=None), "mail: urgent must be true or false, it is None"),
        (mail(kind=[3]), "mail: kind must be text, it is [3]"),
        (mail(kind="k" * (NAME_LENGTH_MAX + 1)), "mail: kind has 201 characters, at most 200"),
        (mail(thread={}), "mail: thread must be text, it is {}"),
        (mail(thread="t" * (NAME_LENGTH_MAX + 1)), "mail: thread has 201 characters, at most 200"),
        (mail(reply_to={}), "mail: reply_to must be text, it is {}"),
        (mail(subject="the barn"), "mail has no field 'subject'"),
        (mail(sender="scout"), "mail has no field 'sender'"),
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
