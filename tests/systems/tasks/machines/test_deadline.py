"""How long a task may take: the published formula, its limits, and the reasons it gives."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.systems.tasks.machines.deadline import Complexity, Deadline, Scope, deadline
from tests.any_text import any_text

MINUTES = {"small": 15, "medium": 30, "large": 60, "xl": 120}
TENTHS = {"low": 7, "medium": 10, "high": 15}
FAMILIES = {"haiku": 5, "sonnet": 10, "opus": 15, "else": 10}

plain = partial(
    deadline,
    scope=Scope.MEDIUM,
    complexity=Complexity.MEDIUM,
    model=None,
    owned_files=0,
    durations_s=(),
)


@pytest.mark.parametrize("scope", MINUTES)
def test_the_size_of_a_task_gives_its_published_time(scope: str) -> None:
    for complexity, family, files in product(TENTHS, FAMILIES, (0, 1, 12)):
        minutes = Fraction(MINUTES[scope] * TENTHS[complexity] * FAMILIES[family], 100)
        exact = minutes * 60 + 30 * files
        found = plain(
            scope=Scope(scope), complexity=Complexity(complexity), model=family, owned_files=files
        )

        assert exact.denominator == 1
        assert found.seconds == sorted((300, int(exact), 7200))[1]
        assert found.confidence == 0.5


@pytest.mark.parametrize(
    ("model", "seconds"),
    [
        ("opus", 2700),
        ("claude-opus-4", 2700),
        ("Claude-OPUS-4-1", 2700),
        ("vendor/claude-3-5-haiku-20241022", 900),
        ("claude-sonnet-4", 1800),
        ("something-else", 1800),
        ("", 1800),
        (None, 1800),
        ("haiku-taught-by-opus", 2700),
        ("haiku-after-sonnet", 1800),
    ],
)
def test_a_models_family_is_found_in_its_full_id_and_the_slower_one_counts(
    model: str | None, seconds: int
) -> None:
    assert plain(model=model).seconds == seconds


def test_history_counts_one_and_a_half_times_its_mean_where_that_is_longer() -> None:
    longer = plain(durations_s=[2000, 4000])
    within = plain(durations_s=[600, 600])

    assert (longer.seconds, longer.confidence) == (4500, 0.8)
    assert (within.seconds, within.confidence) == (1800, 0.8)


@pytest.mark.parametrize("nothing", [0, -5, -math.inf, math.nan, math.inf])
def test_a_duration_that_is_no_positive_number_is_ignored(nothing: float) -> None:
    assert plain(durations_s=[nothing]) == plain()
    assert plain(durations_s=[nothing, 3000]) == plain(durations_s=[3000])


def test_a_deadline_is_cut_to_its_limits_exactly() -> None:
    assert plain(durations_s=[4800]).seconds == 7200
    assert plain(durations_s=[4801]).seconds == 7200
    assert plain(owned_files=180).seconds == 7200
    assert plain(owned_files=181).seconds == 7200

    short = partial(plain, scope=Scope.SMALL, complexity=Complexity.LOW, model="haiku")
    # The shortest published size is 315 s, so only a table that is changed reaches the floor.
    assert short().seconds == 315


def test_no_deadline_is_below_300_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "interlock.systems.tasks.machines.deadline.FACTOR_OF_FAMILY", {"haiku": 0.1}
    )
    found = plain(scope=Scope.SMALL, model="haiku")

    assert found.seconds == 300
    assert found.reasons[-1] == "never less than 300 s"


def test_a_negative_count_of_files_is_refused() -> None:
    with pytest.raises(AssertionError):
        plain(owned_files=-1)


def test_each_step_that_counted_is_one_readable_line() -> None:
    assert plain() == Deadline(1800, 0.5, ("scope medium: 1800 s",))
    assert deadline(
        scope=Scope.LARGE,
        complexity=Complexity.HIGH,
        model="claude-opus-4",
        owned_files=4,
        durations_s=[8000, 9000],
    ) == Deadline(
        7200,
        0.8,
        (
            "scope large: 3600 s",
            "complexity high: times 1.5",
            "model family opus: times 1.5",
            "owned files: 4, 30 s each",
            (
                "tasks of its role took 8500 s on average (2 of them), and "
                "1.5 times that is more than the 8220 s of its size"
            ),
            "never more than 7200 s",
        ),
    )


def test_a_history_that_changes_nothing_is_named_too() -> None:
    line = (
        "tasks of its role took 1200 s on average (1 of them), and "
        "1.5 times that is not more than the 1800 s of its size"
    )

    assert plain(durations_s=[1200]).reasons == ("scope medium: 1800 s", line)


def test_a_deadline_at_its_limit_was_not_cut() -> None:
    assert plain(scope=Scope.XL).reasons == ("scope xl: 7200 s",)
    assert len(plain(durations_s=[4800]).reasons) == 2


@given(
    durations=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=5),
    files=st.integers(0, 10**6),
    model=any_text(max_size=8) | st.none(),
)
def test_a_deadline_is_always_whole_seconds_within_its_limits(
    durations: list[float], files: int, model: str | None
) -> None:
    found = plain(durations_s=iter(durations), owned_files=files, model=model)

    assert isinstance(found.seconds, int)
    assert 300 <= found.seconds <= 7200
    assert found.seconds >= plain(owned_files=files, model=model).seconds
