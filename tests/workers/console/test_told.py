"""What the lines of a log say, where the code of a system that tells them fails."""

from __future__ import annotations

from typing import NoReturn

import pytest

from interlock.kernel.errors import StoreError
from interlock.kernel.machines import MACHINES
from interlock.systems.threads.page import PAGE
from interlock.workers.console.told import told
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import bring, client_of


@pytest.mark.parametrize("fault", [KeyError("action"), StoreError("it is away")])
def test_a_log_is_told_plainly_after_a_fault_but_not_of_a_store_that_is_away(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fail(_: object) -> NoReturn:
        raise fault

    interlock, machine = client_of(server.url, prefix), MACHINES["thread"]
    bring(interlock, "paper", "awaiting_confirmation")
    lines = interlock.history("paper")[::-1]
    assert isinstance(PAGE.tellers, dict)
    monkeypatch.setitem(PAGE.tellers, "thread", fail)

    if isinstance(fault, StoreError):
        with pytest.raises(StoreError):
            told(interlock, machine, lines)
    else:
        assert "It was handed in" in [
            each.text for each in told(interlock, machine, lines).values()
        ]
