"""A message of blocks between lines with a marker, so that no text in a block can end it."""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex


def new_marker() -> str:
    """Return a random marker, which the author of the material cannot have known."""
    return token_hex(16)


def blocks(marker: str, texts: Mapping[str, str]) -> str:
    """Return the texts as one message, each in a block of its name."""
    message = "\n\n".join(
        f"BEGIN {marker} {name}\n{text}\nEND {marker} {name}" for name, text in texts.items()
    )
    # A lone surrogate cannot be sent; it must not stop the rest.
    return message.encode(errors="backslashreplace").decode()
