"""The search box: words of the title, and conditions such as `state:failed`."""

from __future__ import annotations

import pytest

from interlock.kernel.errors import CallError
from interlock.kernel.machines import MACHINES
from interlock.workers.console.search import conditions

NOW_MS = 10 * 3_600_000


def test_terms_become_conditions_and_the_rest_are_words_of_the_title() -> None:
    text = "machine:thread paper  state:failed effect:a older:1h parent:a id:th- towels"
    found = conditions(text, NOW_MS, MACHINES)

    assert found == {
        "machine": "thread",
        "state": "failed",
        "effect": "a",
        "since_ms": (0, NOW_MS - 3_600_000),
        "parent": "a",
        "id_prefix": "th-",
        "text": "paper towels",
    }
    assert conditions(" ", NOW_MS, MACHINES) == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("older:yesterday", "older:yesterday is no time"),
        ("actor:ann paper", "acts, not records"),
        ("foo:bar", "there is no foo: to search by; there are machine:, state:"),
    ],
)
def test_a_condition_of_no_list_is_refused(text: str, problem: str) -> None:
    with pytest.raises(CallError, match=problem):
        conditions(text, NOW_MS, MACHINES)
