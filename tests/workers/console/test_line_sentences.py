"""What the lines of a log say, where the timeline of a system fails."""

from __future__ import annotations

from typing import NoReturn

import pytest

from interlock.kernel.errors import StoreError
from interlock.kernel.machines import MACHINES
from interlock.systems.threads.page import PAGE
from interlock.workers.console.line_sentences import line_sentences
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import bring, client_of


@pytest.mark.parametrize("fault", [KeyError("action"), StoreError("it is away")])
def test_a_fault_leaves_a_log_the_sentences_of_its_rows_but_not_a_store_that_is_away(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fail(_: object) -> NoReturn:
        raise fault

    interlock, machine = client_of(server.url, prefix), MACHINES["thread"]
    bring(interlock, "paper", "awaiting_confirmation")
    lines = interlock.history("paper")[::-1]
    assert isinstance(PAGE.timelines, dict)
    monkeypatch.setitem(PAGE.timelines, "thread", fail)

    if isinstance(fault, StoreError):
        with pytest.raises(StoreError):
            line_sentences(interlock, machine, lines)
    else:
        assert "It was handed in" in [
            each.title for each in line_sentences(interlock, machine, lines).values()
        ]
