"""Hides secrets in texts that come from outside: in outputs, and in what errors repeat."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from interlock.workers.config import PREFIX, Settings

SECRET_BYTES_MIN = 8  # a shorter text would be hidden in many words where it is no secret
# The end of an output may be the beginning of a secret that is still being printed.
BEGINNING_BYTES_MIN = 4
_NAMES = re.compile("KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS$|_PWD$|CREDENTIAL")
# Settings that are shown wherever settings are, though they have such a name.
_SHOWN = {f"{PREFIX}{name.upper()}" for name, field in Settings.model_fields.items() if field.repr}
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
    names = {name for name in environment if _NAMES.search(name.upper())} - _SHOWN
    named = {environment[name] for name in names}
    return {*named, *passwords(environment.values())}


def passwords(texts: Iterable[str]) -> Iterator[str]:
    """Yield the passwords in addresses, as they are written and without their escapes."""
    for text in texts:
        for found in _IN_ADDRESS.finditer(text):
            password = found.group(1) or found.group(2)
            yield from (password, unquote(password))


# What steps of this process have read as secrets, whatever the names of the variables are.
_READ: dict[str, None] = {}


def hide_from_now_on(secret: str) -> None:
    """Hide a secret that a step reads, in all that this process says of it later."""
    _READ[secret] = None


def holds_secret(value: Any) -> bool:
    """Whether a JSON value has a secret in it that a step of this process has read."""
    if isinstance(value, str):
        return any(len(each) >= SECRET_BYTES_MIN and each in value for each in list(_READ))
    if isinstance(value, Mapping):
        return any(map(holds_secret, (*value, *value.values())))
    return isinstance(value, list | tuple) and any(map(holds_secret, value))


def without_secrets(text: str, *secrets: str) -> str:
    """Return what somebody outside has said, without these secrets and those of this process.

    Those are the secrets in its environment, and those that its steps have read; passwords in any
    address are hidden as well.
    """
    for secret in (*secrets, *named_secrets(os.environ), *passwords([text])):
        if len(secret) >= SECRET_BYTES_MIN:
            text = text.replace(secret, "*" * len(secret))
    for secret in list(_READ):
        text = text.replace(secret, "*" * len(secret))
    return text


class RedactedError(Exception):
    """Stands for an error whose own text cannot be changed, under the name of its class."""


def hide_secrets(error: BaseException, *secrets: str) -> BaseException:
    """Return an error without secrets that somebody outside has said, also in its causes.

    It is the same one, changed, because logs, traces and whoever catches it each read it; or, where
    its class computes its text from elsewhere, a RedactedError in its place.
    """
    return _hidden(error, secrets, {})


def _hidden(
    error: BaseException, secrets: Iterable[str], seen: dict[int, BaseException]
) -> BaseException:
    if id(error) in seen:
        return seen[id(error)]
    first = id(error)
    seen[first] = error
    error.args = tuple(_without(each, secrets) for each in error.args)
    fields = getattr(error, "__dict__", {})
    fields |= {name: _without(value, secrets) for name, value in fields.items()}
    cause, context, suppress = error.__cause__, error.__context__, error.__suppress_context__
    parts = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    said = str(error)
    hidden = without_secrets(said, *secrets)
    if hidden != said or any(_hidden(part, secrets, seen) is not part for part in parts):
        stand_in = type(type(error).__name__, (RedactedError,), {})(hidden)
        error = seen[first] = stand_in.with_traceback(error.__traceback__)
    error.__cause__ = cause and _hidden(cause, secrets, seen)
    error.__context__ = context and _hidden(context, secrets, seen)
    error.__suppress_context__ = suppress
    return error


def _without(value: Any, secrets: Iterable[str]) -> Any:
    if isinstance(value, str):
        return without_secrets(value, *secrets)
    if isinstance(value, dict):
        return {name: _without(each, secrets) for name, each in value.items()}
    if isinstance(value, list):
        return [_without(each, secrets) for each in value]
    return value
