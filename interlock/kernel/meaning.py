"""What a state means to people, whatever its machine calls it. Pure."""

from __future__ import annotations

from enum import StrEnum


class Meaning(StrEnum):
    """What the records in a state do: pages and commands show each in a colour and shape."""

    ASKS = "asks"  # they wait for a person
    WORKS = "works"  # an effect, or an agent, is at work on them
    WAITS = "waits"  # they wait for their turn, a time, another record or a call
    FAILED = "failed"
    DONE = "done"
    ENDED = "ended"  # neither done nor failed: cancelled, dismissed, skipped

    @property
    def in_words(self) -> str:
        """Return it as a person says it of a record."""
        return _WORDS[self]


_WORDS = {
    Meaning.ASKS: "waits for a person",
    Meaning.WORKS: "at work",
    Meaning.WAITS: "waits",
    Meaning.FAILED: "failed",
    Meaning.DONE: "done",
    Meaning.ENDED: "ended otherwise",
}
