"""What the choices of a card say to people, and the answers that a card suggests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ChoiceWords:
    """What a person says with a choice, and what follows from it.

    `final` says what cannot be undone, where that is so: the person is then asked once more.
    `suggests` are answers that are given with one click: by what each says, its fields.
    """

    says: str
    final: str = ""
    suggests: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


Words = Mapping[str, ChoiceWords]  # by choice
