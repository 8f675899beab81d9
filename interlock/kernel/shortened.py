"""Shortens a text that is shown: its beginning and its end are kept."""

from __future__ import annotations

from unicodedata import east_asian_width

ELLIPSIS = "…"


def shortened(text: str, columns_max: int) -> str:
    """Return a text in at most so many columns of a terminal, and so at most as many characters.

    An ellipsis stands for its middle: the beginning says what the text is about, and the end what
    came of it, such as the last line that a command printed.
    """
    if fits(text, columns_max):
        return text
    head, tail = kept_ends(text, columns_max)
    return f"{text[:head].rstrip()}{ELLIPSIS}{text[len(text) - tail :].lstrip()}"


def kept_ends(text: str, columns_max: int) -> tuple[int, int]:
    """Return how many letters of its beginning and of its end a text keeps that is too long."""
    kept = max(columns_max - len(ELLIPSIS), 0)
    tail = kept // 2
    return _fitting(text[: kept - tail], kept - tail), _fitting(text[: -tail - 1 : -1], tail)


def fits(text: str, columns_max: int) -> bool:
    """Whether a text takes at most so many columns of a terminal."""
    return len(text) <= columns_max and columns_of(text) <= columns_max


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes: a wide letter takes two."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _fitting(text: str, columns_max: int) -> int:
    columns = 0
    for number, letter in enumerate(text):
        columns += _columns(letter)
        if columns > columns_max:
            return number
    return len(text)


def _columns(letter: str) -> int:
    return 2 if east_asian_width(letter) in "WF" else 1
