"""Diffs with coloured code: no text is lost or changed, and none becomes markup."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from interlock.workers.console.coloured_code import COLOURED_MAX, counts, diff_rows

HEAD = "diff --git a/x b/x\nnew file mode 100755\nindex 1..2 100644\n--- a/x\n+++ b/x\n"
BODY = (
    '@@ -1,3 +1,3 @@ def old(): "<b>"\n'
    " def one():\n"
    '-    """Was\n'
    '+    return "<img src=x>"  # \u202e\n'
    " \ttabs = 0x1f"
)


def text_of(text: str, path: str) -> list[str]:
    """Return the lines of a diff as a browser shows them, without its markup."""
    rows = [str(row.code) for row in diff_rows(text, path)]
    assert not any("<img" in row or "\u202e" in row for row in rows)
    return [
        unescape("".join(part.partition(">")[2] for part in f">{row}".split("<"))) for row in rows
    ]


@pytest.mark.parametrize("path", ["x.py", "x.js", "x.md", "x.unheard-of", "Makefile"])
def test_a_coloured_diff_has_the_text_of_the_file_and_nothing_else(path: str) -> None:
    expected = [line.replace("\u202e", r"\u202e") for line in BODY.split("\n")]

    assert text_of(HEAD + BODY, path) == ["new file mode 100755", *expected]
    assert counts(HEAD + BODY) == "+1 -1"


def test_what_was_there_before_is_coloured_by_itself() -> None:
    """A text that is not ended in a removed line would else run on in the lines after it."""
    rows = diff_rows(BODY, "x.py")

    assert [row.kind for row in rows] == ["soft", "", "removed", "added", ""]
    assert '<i class="k">return</i>' in rows[3].code
    assert '<i class="m">0x1f</i>' in rows[4].code


@pytest.mark.parametrize("odd", ["x = 1\r", "y" * 2_000, "z\n+" * COLOURED_MAX])
def test_a_diff_that_a_lexer_would_change_or_take_long_for_is_shown_plain(odd: str) -> None:
    rows = diff_rows(f"@@ -0,0 +1 @@\n+{odd}", Path("x.py").name)

    assert not any("<i" in row.code for row in rows)
