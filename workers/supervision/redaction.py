"""Hides secrets in the output of agents before it leaves their computer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from interlock.workers.config import Settings
from interlock.workers.engine.work_environment import environment_of_work

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


def secrets_of(settings: Settings) -> set[str]:
    """Return the secrets that an agent of this worker could print.

    They are the secret settings, the variables that an agent gets and whose names say that they
    are secrets, and the passwords in all addresses.
    """
    fields = type(settings).model_fields
    values = {name: getattr(settings, name) for name in fields}
    hidden = [str(value) for name, value in values.items() if value and not fields[name].repr]
    environment = environment_of_work()
    return {
        *(value for value in hidden if "://" not in value),  # of an address, its passwords
        *(value for name, value in environment.items() if _NAMES.search(name.upper())),
        *_passwords(map(str, values.values())),
        *_passwords(environment.values()),
    }


def last_words(text: str, settings: Settings, length_max: int) -> str:
    """Return the end of what a process has printed or reported, where errors are, without secrets.

    Give more than `length_max` letters where there are more, or the end of a secret may be shown.
    """
    return Redaction(secrets_of(settings)).text(text)[-length_max:]


def _passwords(texts: Iterable[str]) -> Iterator[str]:
    """Yield the passwords in addresses, as they are written and without their escapes."""
    for text in texts:
        for found in _IN_ADDRESS.finditer(text):
            password = found.group(1) or found.group(2)
            yield from (password, unquote(password))
