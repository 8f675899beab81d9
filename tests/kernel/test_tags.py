"""Tags: which texts can be one, and which tags a record has."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.machine import Machine
from interlock.kernel.tags import as_tags
from interlock.systems.jobs.machines.job.table import JOB
from interlock.systems.loops.machines.loop.table import LOOP
from interlock.systems.tasks.machines.task.table import TASK
from interlock.systems.threads.machines.thread.table import THREAD

ADVICE = "is no tag: write one word of up to 40 visible characters, without a comma"
NEW: tuple[tuple[Machine, dict[str, Any]], ...] = (
    (THREAD, {"inciting": {"title": "Paper"}}),
    (TASK, {"title": "Paper"}),
    (JOB, {"phases": [{"worker": {"command": "true"}}]}),
    (LOOP, {"repo": "/src", "command": "true"}),
)


@pytest.mark.parametrize(("machine", "payload"), NEW, ids=[machine.name for machine, _ in NEW])
def test_a_record_has_the_tags_that_it_was_created_with_each_once(
    machine: Machine, payload: dict[str, Any]
) -> None:
    tagged = machine.initial_data({**payload, "tags": ["bug", "#42", "größe", "x" * 40]})

    assert as_tags(machine.tags(tagged)) == ("bug", "#42", "größe", "x" * 40)
    assert as_tags(machine.tags(machine.initial_data(payload))) == ()
    assert len(as_tags(machine.tags(machine.initial_data({**payload, "tags": ["EU", "eu"]})))) == 1


@pytest.mark.parametrize(
    "tag", ["", "a b", "a,b", "x" * 41, "a\nb", "\u202eab", "\u3164", "\ud800"]
)
def test_what_people_cannot_read_as_one_word_is_no_tag(tag: str) -> None:
    with pytest.raises(InvalidPayloadError) as refused:
        THREAD.initial_data({"inciting": {}, "tags": ["bug", tag]})

    assert refused.value.problems == (f"tags.1: {tag[:40]!r} {ADVICE}",)
    assert as_tags([tag, "bug"]) == ("bug",)


def test_a_record_has_at_most_ten_tags() -> None:
    eleven = [str(number) for number in range(11)]

    with pytest.raises(InvalidPayloadError, match="at most 10 items"):
        THREAD.initial_data({"inciting": {}, "tags": eleven})
    assert as_tags(eleven) == tuple(eleven[:10])


@pytest.mark.parametrize("tags", [3, "bug", {"bug": 1}, [3, None]])
def test_a_field_of_another_machine_that_has_no_tags_is_left_alone(tags: object) -> None:
    assert as_tags(THREAD.tags({"tags": tags})) == ()
