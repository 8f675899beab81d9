"""Surfaces on which people see cards: a folder, a webhook. The truth is in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import httpx2 as httpx

from interlock.kernel.errors import InvalidPayloadError

WEBHOOK_TIMEOUT_S = 10.0


class SurfaceError(RuntimeError):
    """A surface did not take a card. It is offered again."""


class Surface(Protocol):
    """One place where people look."""

    def show(self, card: Mapping[str, Any], key: str) -> None:
        """Show a card; a repetition with the same key shows nothing more."""

    def withdraw(self, record_id: str, key: str) -> None:
        """Take a record's card away, if there is one."""


class Folder:
    """A card is one JSON file, named by its record: the newest replaces the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def show(self, card: Mapping[str, Any], key: str) -> None:
        """Write the card, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self._place(str(card["record_id"]))
        torn = place.with_name(f"{place.name}.{quote(key, safe='')[-40:]}.torn")
        torn.write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", "utf-8")
        torn.replace(place)

    def withdraw(self, record_id: str, key: str) -> None:
        """Remove the card."""
        del key
        self._place(record_id).unlink(missing_ok=True)

    def _place(self, record_id: str) -> Path:
        return self.folder / f"{quote(record_id, safe='')}.json"


class Webhook:
    """A card is posted as JSON; `Idempotency-Key` tells a repetition from a new one."""

    def __init__(self, url: str) -> None:
        self.url = url

    def show(self, card: Mapping[str, Any], key: str) -> None:
        """Post the card."""
        self._post({"event": "card", "card": card}, key)

    def withdraw(self, record_id: str, key: str) -> None:
        """Post that the card is void."""
        self._post({"event": "withdrawn", "record_id": record_id}, key)

    def _post(self, body: Mapping[str, Any], key: str) -> None:
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
    """Every surface of this deployment; none is allowed: then cards are read in the console."""

    def __init__(self, surfaces: Sequence[Surface]) -> None:
        self.surfaces = tuple(surfaces)

    def show(self, card: Mapping[str, Any], key: str) -> None:
        """Show a card everywhere."""
        for surface in self.surfaces:
            surface.show(card, key)

    def withdraw(self, record_id: str, key: str) -> None:
        """Take a card away everywhere."""
        for surface in self.surfaces:
            surface.withdraw(record_id, key)


def open_surfaces(folder: Path | None, webhook: str | None) -> Surfaces:
    """Open the surfaces that the settings name."""
    found: list[Surface] = []
    if folder is not None:
        found.append(Folder(folder))
    if webhook is not None:
        if not webhook.startswith(("http://", "https://")):
            raise InvalidPayloadError(
                "INTERLOCK_CARDS_WEBHOOK", [f"{webhook!r} is no http address"]
            )
        found.append(Webhook(webhook))
    return Surfaces(found)
