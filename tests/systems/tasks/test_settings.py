"""The settings of coding tasks."""

from __future__ import annotations

import pytest

from interlock.systems.tasks.settings import TaskSettings
from interlock.workers.config import Settings


@pytest.mark.parametrize("name", ["judge_s", "verify_s", "stall_s", "spawn_s"])
def test_a_time_of_a_setting_has_the_limits_that_every_deployment_has(name: str) -> None:
    assert TaskSettings.model_fields[name].metadata == Settings.model_fields["poll_s"].metadata
