"""Workspaces for runs in a deployment that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import FAILED
from tests.end_to_end.deployment import Deployment
from tests.end_to_end.runs.workspaces import NewWorkspace, RunWorkspace, holding, workspaces


@pytest.fixture(scope="module")
def shared_variables(shared_folder: Path) -> dict[str, str]:
    return holding(shared_folder)


@pytest.fixture
def new_workspace(
    request: pytest.FixtureRequest, joint_deployment: Deployment, tmp_path: Path
) -> Iterator[NewWorkspace]:
    """Return a function that makes workspaces for runs in a shared deployment."""
    with workspaces(joint_deployment, tmp_path, lambda: FAILED in request.node.stash) as build:
        yield build


@pytest.fixture
def workspace(new_workspace: NewWorkspace) -> RunWorkspace:
    """Return a workspace for runs."""
    return new_workspace("work")
