"""The world of a store test: its own prefix on the shared server, its own clock."""

from __future__ import annotations

import pytest
import redis

from interlock.kernel.store import scripts
from tests.kernel.store.kernel_at_a_fixed_time import Text, World


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch) -> Text:
    """Return the scripts' text, which this test may change."""
    made = Text()
    monkeypatch.setattr(scripts, "source_of", made.source_of)
    monkeypatch.setattr(scripts, "sha_of", made.sha_of)
    return made


@pytest.fixture
def world(client: redis.Redis, prefix: str, text: Text) -> World:
    """Return the kernel on the shared server, with a clock that only the test moves."""
    return World(client, prefix, text)
