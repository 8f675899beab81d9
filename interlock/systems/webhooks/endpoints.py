"""The endpoints that are notified of cards and ends, as the file of INTERLOCK_WEBHOOKS has them."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from interlock import Settings
from interlock.system.files import Document
from interlock.system.settings import SettingsError
from interlock.system.tables import LISTED, Word
from interlock.systems.webhooks.settings import WebhookSettings

FILE_BYTES_MAX = 1_000_000
SECRET_PREFIX = "whsec_"  # noqa: S105 - how the specification lets every secret begin
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
CARDS: Final = "cards"
ESCALATIONS: Final = "escalations"
ENDS: Final = "ends"


class _Fields(BaseModel):
    # An error must not repeat a value: it may be a secret.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Endpoint(_Fields):
    """An endpoint: its address, the secrets that sign, and what it is notified of.

    While its secret is changed it has two, and both sign. Without `machines` it is notified of the
    records of all. Only with `allow_private` it may be in the own network. With `answers_as` the
    cards that it gets have links that answer them as this person.
    """

    name: Word
    url: SecretStr  # the path of some is a secret
    secrets: Annotated[tuple[SecretStr, ...], Field(min_length=1, max_length=2)]
    kinds: tuple[Literal["cards", "escalations", "ends"], ...] = (CARDS, ESCALATIONS, ENDS)
    machines: tuple[str, ...] = ()
    format: Literal["plain", "cloudevents"] = "plain"
    allow_private: bool = False
    answers_as: Word | None = None

    @field_validator("url")
    @classmethod
    def _address(cls, url: SecretStr) -> SecretStr:
        text = url.get_secret_value()
        try:
            parts = urlsplit(text)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
            is_address = is_address and (parts.port is None or parts.port > 0)
        except ValueError:
            is_address = False
        if not is_address or not text.isprintable() or " " in text:
            raise ValueError("write an address, http:// or https:// with a host")
        if "@" in parts.netloc:
            raise ValueError("leave out the user and the password: secrets sign each message")
        return url

    @field_validator("secrets")
    @classmethod
    def _keys(cls, secrets: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        for secret in secrets:
            _key(secret)
        return secrets

    @field_validator("machines")
    @classmethod
    def _known(cls, machines: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in machines if name not in LISTED]:
            raise ValueError(f"no machine is called {unknown[0]}; `interlock machines` lists them")
        return machines

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The bytes of the secrets."""
        return tuple(_key(secret) for secret in self.secrets)

    def wants(self, kind: str, machine: str) -> bool:
        """Whether it is notified of cards, escalations or ends of the records of a machine."""
        return kind in self.kinds and (not self.machines or machine in self.machines)


class EndpointFile(_Fields):
    """The file of endpoints."""

    endpoints: tuple[Endpoint, ...] = ()

    @field_validator("endpoints")
    @classmethod
    def _names(cls, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        names = Counter(endpoint.name for endpoint in endpoints)
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"two are called {twice[0]}; deliveries know them by their names")
        return endpoints


def open_endpoints(settings: Settings) -> tuple[Endpoint, ...]:
    """Return the endpoints that the settings name.

    Raises FileError for a wrong file, and SettingsError if links have no address.
    """
    file = settings.of(WebhookSettings).webhooks
    if file is None:
        return ()
    found = _read(file.absolute())
    if settings.public_url is None and any(endpoint.answers_as for endpoint in found):
        problem = "`answers_as` makes links, so INTERLOCK_PUBLIC_URL must say where people reach"
        raise SettingsError(f"{file}: {problem} `interlock serve`")
    return found


@cache
def _read(path: Path) -> tuple[Endpoint, ...]:
    document = Document.read(path, bytes_max=FILE_BYTES_MAX, advice="remove endpoints")
    return document.model(EndpointFile).endpoints


def _key(secret: SecretStr) -> bytes:
    """Return the bytes of a secret. Raises ValueError, which does not repeat it."""
    text = secret.get_secret_value()
    try:
        key = b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not text.startswith(SECRET_PREFIX) or not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        form = f"{SECRET_PREFIX} and the base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes"
        raise ValueError(f"a secret is {form}")
    return key
