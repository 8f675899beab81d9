"""The live parts of a page are looked at wherever they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.supervision import page
from interlock.workers.terminal.page import LivePart, Section
from tests.systems.threads.threads import bring, client_of


def test_a_live_part_in_a_section_of_a_section_is_looked_at(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(server.url, prefix)
    live = LivePart("output", bring(client, "one", "awaiting_confirmation"))
    monkeypatch.setattr(page, "looked_at", lambda _, part, __: replace(part, stamp="seen"))

    (found,) = page.with_live_parts(client, [Section("a", [Section("b", [live], is_folded=True)])])

    assert found == Section("a", [Section("b", [replace(live, stamp="seen")], is_folded=True)])
