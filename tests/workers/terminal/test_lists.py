"""A list that leaves some out says so, on stderr, so that it stays JSON for a program."""

from __future__ import annotations

import json

import pytest

from interlock.workers.client import Client
from tests.systems.threads.threads import bring
from tests.workers.terminal.conftest import Run


@pytest.mark.parametrize(
    ("words", "order"),
    [(("list",), "the longest in their state first"), (("cards",), "the longest waiting first")],
)
def test_a_list_that_leaves_some_out_says_so_and_stays_json(
    interlock: Client, run: Run, words: tuple[str, ...], order: str
) -> None:
    for name in ("one", "two", "three"):
        bring(interlock, name, "awaiting_confirmation")

    cut, whole = run(*words, "--limit", 2, "--json"), run(*words, "--limit", 3, "--json")

    assert f"2 of 3 are listed, {order}: --limit lists more" in cut.stderr
    assert whole.stderr == ""
    rows = [json.loads(each.stdout) for each in (cut, whole)]
    assert [len(row if words == ("cards",) else row["records"]) for row in rows] == [2, 3]
