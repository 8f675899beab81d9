"""Any text, for tests that hold for all texts."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

# All but lone surrogates, which UTF-8 cannot write. `st.text()` has the same characters, but tries
# each of a million when it is first used in a new folder, which takes each process two seconds.
ANY_CHARACTER = st.characters(exclude_categories=["Cs"])


def any_text(max_size: int | None = None) -> SearchStrategy[str]:
    """Return a strategy for texts of any characters that UTF-8 can write."""
    return st.text(ANY_CHARACTER, max_size=max_size)
