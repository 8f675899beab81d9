"""What the log says about a card: whether it was shown in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.event import Note
from interlock.workers.gateways.server import EmbeddedServer
from tests.workers.engine.running import Running, settings_for


@pytest.mark.parametrize("on", ["no folder", "folder"])
def test_a_card_is_delivered_only_where_somebody_is_told_of_it(
    server: EmbeddedServer, prefix: str, tmp_path: Path, on: str
) -> None:
    cards = {"INTERLOCK_CARDS": str(tmp_path)} if on == "folder" else {}
    running = Running(settings_for(server.url, prefix, **cards))
    running.client.submit({"inciting": {"title": "Call"}, "hold": True}, machine="thread", id="one")

    running.perform("one", name="resolution")

    notes = [line for line in running.client.history("one") if isinstance(line, Note)]
    (note,) = [note for note in notes if note.kind.startswith("card_")]
    seen: dict[str, Any] = {"kind": "proposal", "proposal": "one:1"}
    assert note.kind == ("card_delivered" if cards else "card_listed")
    assert {name: note.detail[name] for name in seen} == seen
    assert [json.loads(file.read_text())["proposal"] for file in tmp_path.iterdir()] == (
        ["one:1"] if cards else []
    )
