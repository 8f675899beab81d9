"""Texts as records can store them. How lines and fields are read is tested with the reports."""

from __future__ import annotations

import pytest

from interlock.workers.specs.json_line import plain_text


@pytest.mark.parametrize(
    ("before", "after"),
    [("a\0b", "a\ufffdb"), ("a\ud800", "a?"), ("x" * 16_001, "x" * 15_997 + "..."), ("ok", "ok")],
)
def test_a_text_loses_only_what_cannot_be_stored(before: str, after: str) -> None:
    assert plain_text(before) == after
