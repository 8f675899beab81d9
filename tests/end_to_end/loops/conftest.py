"""Long-lived agents for tests whose modules share a deployment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.deployment import Deployment
from tests.end_to_end.loops.agents import Agents


@pytest.fixture
def agents(joint_deployment: Deployment, tmp_path: Path) -> Iterator[Agents]:
    """Return the agents of this test in a deployment that the tests of this module share."""
    agents = Agents(joint_deployment, tmp_path)
    yield agents
    agents.stop_all()


@pytest.fixture
def owl(joint_deployment: Deployment) -> str:
    """Return a name that no agent of another test has."""
    return f"owl-{joint_deployment.scope}"
