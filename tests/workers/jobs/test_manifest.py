"""The manifest of a job that follows from its log."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.event import Cause, Event
from interlock.workers.jobs.manifest import manifest_of
from tests.kernel.jobs.jobs import PureJob


@pytest.mark.parametrize(
    ("payload", "cause", "summary"),
    [
        ({"reason": "no money is left"}, "not now", "no money is left"),
        ({}, "not now", "not now"),
        ({}, "", "it is no longer wanted"),
    ],
)
def test_an_entry_of_the_history_has_the_words_of_its_author_or_of_its_row(
    payload: dict[str, Any], cause: str, summary: str
) -> None:
    case = PureJob.at("pending").fire("cancel", **payload)
    event = Event(
        record_id=case.record.id,
        version=case.record.version,
        trigger=case.last.trigger,
        source=case.last.before.state,
        target=case.state,
        payload=payload,
        cause=Cause("ann", cause),
        says=case.last.says,
    )

    (entry,) = manifest_of(case.record, [event])["history"]

    assert (entry["status"], entry["summary"]) == ("CANCELED", summary)
