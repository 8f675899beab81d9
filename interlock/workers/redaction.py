"""Hides secrets in texts that come from outside: in outputs, and in what errors repeat."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

SECRET_BYTES_MIN = 8  # a shorter text would be hidden in many words where it is no secret
# The end of an output may be the beginning of a secret that is still being printed.
BEGINNING_BYTES_MIN = 4
_NAMES = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL")
_IN_ADDRESS = re.compile(r"://[^\s/@]*:([^\s/@]+)@|[?&]\w*password=([^\s&]+)")


class Redaction:
    """Replaces each byte of certain secrets with an asterisk."""

    def __init__(self, secrets: Iterable[str]) -> None:
        encoded = {secret.encode(errors="surrogateescape") for secret in secrets}
        self._secrets = [one for one in encoded if len(one) >= SECRET_BYTES_MIN]
        self.longest = max(map(len, self._secrets), default=0)

    def hidden(self, part: bytes) -> bytes:
        """Return a part of an output, as long as before, in which no secret can be read.

        A beginning of a secret at its end is hidden as well. The end of a secret at its beginning
        is not recognized: give `longest` more bytes before it, and leave them out of the result.
        """
        shown = bytearray(part)
        for secret in self._secrets:
            at = part.find(secret)
            while at >= 0:
                shown[at : at + len(secret)] = b"*" * len(secret)
                at = part.find(secret, at + 1)
            if begun := _beginning(part, secret):
                shown[-begun:] = b"*" * begun
        return bytes(shown)

    def end_of(self, part: bytes, bytes_max: int) -> str:
        """Return the end of an output without secrets, as text that any log can hold.

        Give at least `longest` more bytes than `bytes_max`, where the output has so many.
        """
        shown = self.hidden(part)[-bytes_max:].decode(errors="ignore")
        return shown.replace("\0", "\N{REPLACEMENT CHARACTER}")

    def text(self, text: str) -> str:
        """Return a whole text without secrets."""
        return self.hidden(text.encode(errors="replace")).decode(errors="replace")


def _beginning(part: bytes, secret: bytes) -> int:
    """Return how many of the last bytes of a part are the beginning of a secret, 0 if too few."""
    lengths = range(len(secret) - 1, BEGINNING_BYTES_MIN - 1, -1)
    return next((length for length in lengths if part.endswith(secret[:length])), 0)


def named_secrets(environment: Mapping[str, str]) -> set[str]:
    """Return the values of variables whose names say that they are secrets, and passwords."""
    named = {value for name, value in environment.items() if _NAMES.search(name.upper())}
    return {*named, *passwords(environment.values())}


def passwords(texts: Iterable[str]) -> Iterator[str]:
    """Yield the passwords in addresses, as they are written and without their escapes."""
    for text in texts:
        for found in _IN_ADDRESS.finditer(text):
            password = found.group(1) or found.group(2)
            yield from (password, unquote(password))


def without_secrets(text: str, *secrets: str) -> str:
    """Return what somebody outside has said, without these secrets and those of this process.

    Those are the secrets in its environment; passwords in any address are hidden as well.
    """
    for secret in (*secrets, *named_secrets(os.environ), *passwords([text])):
        if len(secret) >= SECRET_BYTES_MIN:
            text = text.replace(secret, "*" * len(secret))
    return text


def hide_secrets(error: BaseException, *secrets: str) -> None:
    """Hide secrets in an error that repeats what somebody outside has said, and in its causes.

    It is changed where it is, because logs, traces and whoever catches it each read it.
    """
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        error.args = tuple(_without(each, secrets) for each in error.args)
        fields = vars(error)
        fields |= {name: _without(value, secrets) for name, value in fields.items()}
        error = error.__cause__ or error.__context__ or error


def _without(value: Any, secrets: Iterable[str]) -> Any:
    if isinstance(value, str):
        return without_secrets(value, *secrets)
    if isinstance(value, dict):
        return {name: _without(each, secrets) for name, each in value.items()}
    return [_without(each, secrets) for each in value] if isinstance(value, list) else value
