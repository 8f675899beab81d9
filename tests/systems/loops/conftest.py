"""A store, one worker in the test's own process, and agents whose effects the tests run."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.workers.gateways.server import EmbeddedServer
from tests.races.in_process_worker import InProcessWorker
from tests.systems.loops.lives import InProcessAgents


@pytest.fixture
def agents(server: EmbeddedServer, prefix: str, tmp_path: Path) -> InProcessAgents:
    return InProcessAgents(InProcessWorker(server.url, prefix, tmp_path / "home"))
