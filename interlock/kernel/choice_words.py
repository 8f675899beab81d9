"""What the choices of a card say to people, and the answers that a card suggests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ChoiceWords:
    """What a person says with a choice, and what follows from it.

    `final` says what cannot be undone, where that is so: the person is then asked once more.
    """

    says: str
    final: str = ""


@dataclass(frozen=True, slots=True)
class SuggestedAnswer:
    """An answer that a card suggests: what it says, the choice, and the fields of the answer."""

    says: str
    choice: str
    answer: Mapping[str, Any]


Words = Mapping[str, ChoiceWords]  # by choice


def unsuggested(data: Mapping[str, Any]) -> Iterable[SuggestedAnswer]:
    """Return no suggested answers, whatever the record's data."""
    del data
    return ()
