"""Deployments for end-to-end tests, whose logs are printed when a test fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from interlock.workers.gateways.server import EmbeddedServer
from tests.end_to_end.deployment import Deployment
from tests.preloaded_process import Preloaded

NewDeployment = Callable[..., Deployment]
StartWorkers = Callable[[Deployment], Deployment]
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Remember on the item that it failed, for the fixtures that clean up after it."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture
def new_deployment(
    request: pytest.FixtureRequest,
    preloaded: Preloaded,
    server: EmbeddedServer,
    tmp_path: Path,
    prefix: str,
) -> Iterator[NewDeployment]:
    """Return a function that makes a deployment: `new_deployment(store_url, **variables)`.

    All deployments of a module have its `VARIABLES`.
    """
    deployments: list[Deployment] = []
    of_module = getattr(request.module, "VARIABLES", {})

    def build(store_url: str = "", **variables: str) -> Deployment:
        number = len(deployments)
        folder = tmp_path / f"deployment{number}"
        folder.mkdir()
        url = store_url or server.url
        chosen = {**of_module, **variables}
        deployment = Deployment(preloaded, folder, url, f"{prefix}{number}", chosen)
        deployments.append(deployment)
        return deployment

    yield build
    for deployment in deployments:
        deployment.close(failed=request.node.stash.get(FAILED, False))


@pytest.fixture
def deployment(new_deployment: NewDeployment) -> Deployment:
    """Return a deployment with one worker and beat."""
    return new_deployment().full()


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the deployment that the tests of a module share."""
    return tmp_path_factory.mktemp("module")


@pytest.fixture(scope="module")
def shared_variables() -> dict[str, str]:
    """Return the variables of the deployment that the tests of a module share: none."""
    return {}


@pytest.fixture(scope="module")
def start_shared() -> StartWorkers:
    """Return a function that starts the workers and beat of a deployment that tests share."""
    return partial(Deployment.full, concurrency=60)


@pytest.fixture(scope="module")
def module_workers(
    preloaded: Preloaded,
    server: EmbeddedServer,
    shared_folder: Path,
    shared_variables: dict[str, str],
    start_shared: StartWorkers,
) -> Iterator[Deployment]:
    """Return the deployment that the tests of a module share.

    A module chooses its variables by the fixture `shared_variables`, and its workers by
    `start_shared`.
    """
    prefix = f"t{uuid4().hex[:12]}"
    workers = Deployment(preloaded, shared_folder, server.url, prefix, shared_variables)
    try:
        yield start_shared(workers)
    finally:
        workers.close(failed=False)


@pytest.fixture
def joint_deployment(
    request: pytest.FixtureRequest, module_workers: Deployment
) -> Iterator[Deployment]:
    """Return the deployment that the tests of a module share, with a scope and a client of a test.

    By its scope a test gives its records ids that no other test uses.
    """
    scope = f"b{uuid4().hex[:6]}"
    yield replace(module_workers, scope=scope)
    if FAILED in request.node.stash:
        module_workers.print_logs()
