"""A store, one worker in the test's own process, and agents that it leads by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.workers.gateways.server import EmbeddedServer
from tests.races.in_process_worker import InProcessWorker
from tests.workers.loops.lives import Nest


@pytest.fixture
def nest(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Nest:
    return Nest(InProcessWorker(server.url, prefix, tmp_path / "home"))
