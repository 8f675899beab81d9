"""Shows cards to people: in a folder, or by a webhook. The original stays in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from interlock.kernel.errors import InvalidPayloadError
from interlock.workers.config import Settings
from interlock.workers.text import visible_json

WEBHOOK_TIMEOUT_S = 10.0


class SurfaceError(RuntimeError):
    """A surface did not accept a card. The effect tries again."""


class Surface(Protocol):
    """One place that shows cards to people; logs call it by its `name`."""

    name: str

    def show(self, card: Mapping[str, Any], key: str) -> None:
        """Show a card; a repetition with the same key changes nothing."""

    def withdraw(self, record_id: str, key: str) -> None:
        """Remove a record's card, if there is one."""


class CardFolder:
    """A folder with one JSON file for each record; a new card replaces the old one."""

    name = "folder"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def show(self, card: Mapping[str, Any], key: str) -> None:
        """Write the card; a reader sees the whole file or none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._file(str(card["record_id"]))
        # Named by the key: two workers that show one record at once write two files.
        unfinished = file.with_name(f"{file.name}.{quote(key, safe='')[-40:]}.torn")
        unfinished.write_text(visible_json(card, indent=2) + "\n", "utf-8")
        unfinished.replace(file)

    def withdraw(self, record_id: str, key: str) -> None:
        """Remove the card."""
        del key
        self._file(record_id).unlink(missing_ok=True)

    def _file(self, record_id: str) -> Path:
        return self.folder / f"{quote(record_id, safe='')}.json"


class CardWebhook:
    """An address that cards are posted to as JSON; a repetition has the same `Idempotency-Key`."""

    name = "webhook"

    def __init__(self, url: str) -> None:
        self.url = url

    def show(self, card: Mapping[str, Any], key: str) -> None:
        """Post the card."""
        self._post({"event": "card", "card": card}, key)

    def withdraw(self, record_id: str, key: str) -> None:
        """Post that the card is void."""
        self._post({"event": "withdrawn", "record_id": record_id}, key)

    def _post(self, body: Mapping[str, Any], key: str) -> None:
        # Imported here, because most workers have no webhook.
        import httpx2 as httpx  # noqa: PLC0415

        try:
            answer = httpx.post(
                self.url,
                json=body,
                headers={"Idempotency-Key": key},
                timeout=WEBHOOK_TIMEOUT_S,
                follow_redirects=False,
            )
        except httpx.HTTPError as refusal:
            raise SurfaceError(f"the webhook did not answer: {refusal}") from refusal
        if answer.is_error:
            raise SurfaceError(f"the webhook answered {answer.status_code}")


class Surfaces:
    """Every surface of this deployment; without any, only `interlock cards` has the cards."""

    def __init__(self, surfaces: Sequence[Surface]) -> None:
        self.surfaces = tuple(surfaces)

    @property
    def names(self) -> list[str]:
        """The names of the surfaces; [] if there are none, so that nobody is told of a card."""
        return [surface.name for surface in self.surfaces]

    def show(self, card: Mapping[str, Any], key: str) -> None:
        """Show a card on every surface."""
        for surface in self.surfaces:
            surface.show(card, key)

    def withdraw(self, record_id: str, key: str) -> None:
        """Remove a record's card from every surface."""
        for surface in self.surfaces:
            surface.withdraw(record_id, key)


def open_surfaces(settings: Settings) -> Surfaces:
    """Open the surfaces that the settings name. Raises InvalidPayloadError for a wrong address."""
    folder, webhook = settings.cards, settings.cards_webhook
    found: list[Surface] = []
    if folder is not None:
        found.append(CardFolder(folder))
    if webhook is not None:
        if not webhook.startswith(("http://", "https://")):
            raise InvalidPayloadError(
                "INTERLOCK_CARDS_WEBHOOK", [f"{webhook!r} is not an http address"]
            )
        found.append(CardWebhook(webhook))
    return Surfaces(found)
