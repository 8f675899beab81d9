"""A deployed worker keeps its own threads on one processor."""

from __future__ import annotations

import os

import pytest

from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import thread
from tests.waiting import until

EVERY = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}

pytestmark = pytest.mark.skipif(len(EVERY) < 2, reason="one processor leaves no choice")


def test_a_worker_keeps_its_main_thread_on_one_processor(new_deployment: NewDeployment) -> None:
    worker = new_deployment().worker()

    until(lambda: len(os.sched_getaffinity(worker.id)) == 1, what="it has chosen one")


def test_switched_off_a_worker_runs_everywhere(new_deployment: NewDeployment) -> None:
    deployment = new_deployment(INTERLOCK_AFFINITY="false")
    worker = deployment.worker()
    deployment.client.submit(thread("jot"), machine="thread", id="one")

    # A choice is made when a worker is ready, long before it has done all this.
    assert deployment.ends("one")[0].state == "done"
    assert os.sched_getaffinity(worker.id) == EVERY
