"""A browser, and a console that it opens, with a worker and beat behind it or without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.end_to_end.browser import chromium_browser
from tests.end_to_end.console.opened import console_of
from tests.end_to_end.deployment import Deployment
from tests.systems.threads.threads import client_of


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with chromium_browser() as browser:
        yield browser


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, home=tmp_path / "home")


@pytest.fixture
def deployed(joint_deployment: Deployment, chromium: Browser) -> Iterator[str]:
    """Give the address of the console of a deployment with a worker and beat."""
    with console_of(joint_deployment.client, chromium) as url:
        yield url


@pytest.fixture
def address(interlock: Client, chromium: Browser) -> Iterator[str]:
    with console_of(interlock, chromium) as url:
        yield url
