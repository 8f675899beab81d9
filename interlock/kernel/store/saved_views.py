"""Keeps saved views: addresses of pages that people gave a name, for all who use a deployment."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

from pydantic import TypeAdapter

from interlock.kernel.errors import CallError
from interlock.kernel.store.codec import UNREADABLE
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, read

VIEWS_MAX = 100
_FIELDS = TypeAdapter(tuple[str, str])  # the path and who saved it, as they are kept


@dataclass(frozen=True, slots=True)
class SavedView:
    """A saved view: its name, the path and query of its page, and who saved it."""

    name: str
    path: str
    saved_by: str


class SavedViews:
    """The saved views of a deployment, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self._key = client, keys.saved_views()

    def all(self) -> list[SavedView]:
        """Return every saved view, by name. One that is damaged in the store is left out."""
        views = []
        for name, text in dict(read(self.client, "HGETALL", self._key)).items():
            with suppress(*UNREADABLE):
                views.append(SavedView(name.decode(), *_FIELDS.validate_json(text)))
        return sorted(views, key=lambda view: view.name.casefold())

    def keep(self, view: SavedView) -> None:
        """Save a view; it replaces one of the same name. Raises CallError if there are too many."""
        text = json.dumps([view.path, view.saved_by])
        if self._change(view.name, text) == b"full":
            raise CallError(f"there are {VIEWS_MAX} saved views: drop one that nobody needs")

    def drop(self, name: str) -> None:
        """Drop a view. Raises CallError if there is none with this name."""
        if self._change(name, "") == b"missing":
            raise CallError(f"there is no saved view {name!r}")

    def _change(self, name: str, text: str) -> bytes:
        status: bytes = call(
            self.client, "change_saved_view", [self._key], [name, text, VIEWS_MAX]
        )[0]
        return status
