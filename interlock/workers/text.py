"""Text as it is shown to people and written to logs: one line, and no character that misleads."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from interlock.kernel.amounts import MICRO, MONEY
from interlock.kernel.tags import BLANKS

DETAIL_LENGTH_MAX = 500
CENT = 0.01
# Control characters, format characters (bidi marks, zero width, tags), halves of surrogate pairs,
# and the separators of lines and paragraphs. A terminal acts on them, or shows nothing for them.
HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SURROGATE = re.compile("[\ud800-\udfff]")
# Python keeps a byte that is not UTF-8 as the half of a surrogate pair with this offset.
_BYTES_FROM, _BYTES_TO = 0xDC80, 0xDCFF


def dollars(micro: float) -> str:
    """Return millionths of a dollar as dollars, with cents.

    Less than a cent has two significant digits. What is given back has a minus: -$0.50.
    """
    amount = abs(micro) / MICRO
    whole_cents = amount == 0 or amount >= CENT
    shown = f"{amount:.2f}" if whole_cents else f"{Decimal(f'{amount:.1e}'):f}"
    return f"-${shown}" if micro < 0 else f"${shown}"


def amount_text(name: str, amount: int) -> str:
    """Return an amount of what is counted by this name: "1,200 tokens", or money in dollars."""
    return dollars(amount) if name == MONEY else f"{amount:,} {name}"


def share_text(name: str, part: int, whole: int) -> str:
    """Return a part of an amount: "40 of 1,000 tokens", or "$0.04 of $1.00"."""
    shown = dollars(part) if name == MONEY else f"{part:,}"
    return f"{shown} of {amount_text(name, whole)}"


def sentence(text: str, *, length_max: int = DETAIL_LENGTH_MAX) -> str:
    """Return any text as one line that fits into a log: no newline, no lone surrogate."""
    line = " ".join(text[: 8 * length_max].split())
    line = line.encode(errors="backslashreplace").decode()
    return line if len(line) <= length_max else line[: length_max - 3] + "..."


def storable(value: Any) -> Any:
    r"""Return plain data in which every text can be stored: a byte that is no UTF-8 is \xe9.

    Python has such bytes as halves of surrogate pairs, in the names of files for example.
    """
    match value:
        case str():
            return value if value.isascii() else _SURROGATE.sub(_escape_of_half, value)
        case Mapping():
            return {storable(name): storable(part) for name, part in value.items()}
        case list() | tuple():
            return [storable(part) for part in value]
        case _:
            return value


def cut_to_bytes(text: str, bytes_max: int, *, end: str) -> str:
    """Return a text in at most so many bytes of UTF-8; one that is cut has this end."""
    encoded = text.encode()
    if len(encoded) <= bytes_max:
        return text
    return encoded[: bytes_max - len(end.encode())].decode(errors="ignore") + end


def visible(text: str) -> str:
    r"""Return a text in which each hidden character but the newline is an escape, such as \x1b."""
    return _escaped(text, lambda letter: letter.encode("unicode_escape").decode())


def visible_line(text: str) -> str:
    r"""Return a text as one line: `visible`, with each newline as \n."""
    return visible(text).replace("\n", "\\n")


def visible_data(value: Any) -> Any:
    """Return plain data in which every text is visible and one line: a newline is a space."""
    match value:
        case str():
            # A StrEnum is its value; str() of one that is none would be its name.
            return visible(str(value)).replace("\n", " ")
        case Mapping():
            return {visible_data(name): visible_data(part) for name, part in value.items()}
        case list() | tuple():
            return [visible_data(part) for part in value]
        case _:
            return value


def visible_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON in which hidden characters are the escapes of JSON itself."""
    text = json.dumps(value, ensure_ascii=False, default=str, indent=indent)
    return _escaped(text, lambda letter: json.dumps(letter)[1:-1])


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    # Each question is answered much faster than the next. A newline is not hidden.
    if text.replace("\n", "").isprintable() and (text.isascii() or BLANKS.isdisjoint(text)):
        return text
    return "".join(escape(letter) if _is_hidden(letter) else letter for letter in text)


def _escape_of_half(found: re.Match[str]) -> str:
    code = ord(found[0])
    is_byte = _BYTES_FROM <= code <= _BYTES_TO
    return f"\\x{code - 0xDC00:02x}" if is_byte else f"\\u{code:04x}"


def _is_hidden(letter: str) -> bool:
    hidden = unicodedata.category(letter) in HIDDEN_CATEGORIES or letter in BLANKS
    return hidden and letter != "\n"
