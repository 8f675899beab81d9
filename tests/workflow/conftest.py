"""Fixtures: workflows at work over the shared store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from interlock.workers.engine.system import Definition
from interlock.workers.gateways.server import EmbeddedServer
from tests.workflow.at_work import AtWork, Start, registered


@pytest.fixture
def at_work(server: EmbeddedServer, prefix: str) -> Iterator[Start]:
    """Return what puts workflows to work in this process."""
    with ExitStack() as known:

        def start(*flows: Definition[Any], **settings: str) -> AtWork:
            known.enter_context(registered(*flows))
            return AtWork(server.url, prefix, *flows, **settings)

        yield start
