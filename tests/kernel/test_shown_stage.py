"""What a state means to people follows from the table, as far as the table can tell it."""

import pytest

from interlock.kernel.machines import MACHINES
from interlock.kernel.meaning import Meaning
from interlock.kernel.shown_stage import ShownState, shown_state
from interlock.workers.terminal.screen import LOOKS


@pytest.mark.parametrize(
    ("machine", "state", "words", "meaning"),
    [
        ("thread", "awaiting_confirmation", "waiting for approval", Meaning.ASKS),
        ("thread", "executing", "executing", Meaning.WORKS),
        ("thread", "monitoring", "waiting for its parts", Meaning.WAITS),
        ("job", "success", "success", Meaning.DONE),
        ("job", "canceled", "canceled", Meaning.ENDED),
        ("task", "failed", "failed", Meaning.FAILED),
        ("run", "completed", "completed", Meaning.DONE),
        ("turn", "tool_use", "tool use", Meaning.WORKS),
        ("loop", "no_such_state", "no such state", Meaning.WAITS),
    ],
)
def test_a_state_has_words_and_a_meaning(
    machine: str, state: str, words: str, meaning: Meaning
) -> None:
    assert shown_state(MACHINES[machine], state) == ShownState(words, meaning)


def test_a_state_asks_a_person_where_its_record_does() -> None:
    job = MACHINES["job"]
    meanings = [shown_state(job, "draft", asks=asks).meaning for asks in (True, False, None)]
    assert meanings == [Meaning.ASKS, Meaning.WAITS, Meaning.WAITS]


def test_each_meaning_has_a_shape_of_its_own() -> None:
    assert len({LOOKS[one][0] for one in Meaning}) == len(Meaning)
