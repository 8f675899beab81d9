"""A workspace whose runs a test moves itself, in a real store and a real git."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.runs.workspaces import (
    CheckpointedFolder,
    StoredWorkspace,
    make_checkpointed_folder,
)


@pytest.fixture(scope="session")
def checkpointed_folder(tmp_path_factory: pytest.TempPathFactory) -> CheckpointedFolder:
    """Return a folder with checkpoints; tests copy it, and do not change it."""
    return make_checkpointed_folder(tmp_path_factory.mktemp("checkpointed") / "data")


@pytest.fixture
def workspace(
    client: redis.Redis,
    server: EmbeddedServer,
    prefix: str,
    tmp_path: Path,
    checkpointed_folder: CheckpointedFolder,
) -> StoredWorkspace:
    return StoredWorkspace(client, server.url, prefix, tmp_path, checkpointed_folder)
