"""Shows cards to people in a folder. The original stays in the store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from interlock.workers.config import Settings
from interlock.workers.text import visible_json


class CardFolder:
    """A folder with one JSON file for each record; a new card replaces the old one."""

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

    def withdraw(self, record_id: str) -> None:
        """Remove the card."""
        self._file(record_id).unlink(missing_ok=True)

    def _file(self, record_id: str) -> Path:
        return self.folder / f"{quote(record_id, safe='')}.json"


def open_card_folder(settings: Settings) -> CardFolder | None:
    """Open the folder that the settings name, if they name one."""
    return None if settings.cards is None else CardFolder(settings.cards)
