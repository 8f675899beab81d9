"""The published reasons, and the reason that an exit code means."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.reason import AbortReason, TransitionReason, sentence

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden/reasons.json").read_text("utf-8")
)
OUR_CODES = [pair for pairs in GOLDEN["our_exit_codes"].values() for pair in pairs]
NAMED = {code: AbortReason(reason) for code, reason in (*GOLDEN["exit_codes"], *OUR_CODES)} | {
    -signal.Signals[name]: AbortReason(reason) for name, reason in GOLDEN["signals"]
}
reasons_of_ours = st.sampled_from([why for why in AbortReason if why is not AbortReason.OOM])


def test_the_reasons_are_the_13_and_the_11_published_ones_and_ours_with_a_reason_each() -> None:
    published = GOLDEN["transition_reasons"]
    ours = [reason for one in GOLDEN["ours"].values() for reason in one]
    assert [str(reason) for reason in TransitionReason] == [*published, *ours]
    assert [str(reason) for reason in AbortReason] == GOLDEN["abort_reasons"]
    assert (len(published), len(AbortReason)) == (13, 11)


def test_every_exit_code_gives_its_reason_and_any_other_is_unknown() -> None:
    found = {code: AbortReason.of_exit(code) for code in range(-64, 256)}

    assert found == dict.fromkeys(found, AbortReason.UNKNOWN) | NAMED | {0: None}


@given(code=st.integers(-64, 255), ours=reasons_of_ours)
def test_a_process_that_we_killed_has_our_reason_whatever_its_exit_code(
    code: int, ours: AbortReason
) -> None:
    assert AbortReason.of_exit(code, killed_by_us=ours) is ours


@pytest.mark.parametrize("code", [-signal.SIGKILL, 137, 0])
def test_a_process_that_we_killed_is_never_called_out_of_memory(code: int) -> None:
    with pytest.raises(AssertionError):
        AbortReason.of_exit(code, killed_by_us=AbortReason.OOM)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("ann", "ann"),
        (7, "7"),
        (["a", "b"], "a, b"),
        ("two\n lines", "two lines"),
        ("{reason} {0} %s", "{reason} {0} %s"),
        ("x" * 81, "x" * 40 + "…" + "x" * 39),
        (["a" * 70, "b" * 70] * 500, "a" * 40 + "…" + "b" * 39),
        (" " * 10_000 + "late", "…late"),
    ],
)
def test_what_a_row_says_of_a_value_is_a_short_line(value: Any, shown: str) -> None:
    assert sentence("it has {value}!", {"value": value}) == f"it has {shown}!"


def test_a_field_without_a_value_leaves_no_brace() -> None:
    assert sentence("it has {value}", {}) == "it has "
