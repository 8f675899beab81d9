"""A workspace whose runs a test leads by hand, in a real store and a real git."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from interlock.workers.gateways.server import EmbeddedServer
from tests.workers.runs.workspaces import Checkpointed, Scene, make_checkpointed


@pytest.fixture(scope="session")
def checkpointed(tmp_path_factory: pytest.TempPathFactory) -> Checkpointed:
    """Return a workspace with checkpoints; copy it, and leave it as it is."""
    return make_checkpointed(tmp_path_factory.mktemp("checkpointed") / "data")


@pytest.fixture
def scene(
    client: redis.Redis,
    server: EmbeddedServer,
    prefix: str,
    tmp_path: Path,
    checkpointed: Checkpointed,
) -> Scene:
    return Scene(client, server.url, prefix, tmp_path, checkpointed)
