"""A worker that freezes: its command has ended before another worker starts it again."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from interlock.systems.jobs.client import Graphs
from tests.end_to_end.conftest import NewDeployment

ENDED = re.compile(r"Task job\.worker\[g/a.*\] (succeeded in .* 'stale: |ignored)")
# The second run checks whether the process of the first still exists.
ONCE_AT_A_TIME = """
echo $$ >> pids
if [ $INTERLOCK_JOB_RUN = 1 ]; then while sleep 0.2; do date +%s.%N > beat; done; fi
kill -0 $(head -n 1 pids) 2> /dev/null && echo >> both
echo done >> made.txt
"""


@pytest.mark.proof
def test_the_command_of_a_frozen_worker_is_dead_before_another_worker_starts_it_again(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    deployment = new_deployment()
    frozen = deployment.worker()
    deployment.beat()
    phases = [{"worker": {"command": ONCE_AT_A_TIME}}]
    folders = {"folder": str(tmp_path), "dir": str(tmp_path / "out"), "auto_approve": True}
    Graphs(deployment.client).create("g/a", {"phases": phases, **folders}, held=False)
    deployment.sees((tmp_path / "beat").exists, what="its command runs")

    deployment.worker()
    frozen.signal(signal.SIGSTOP)
    # The lease of a frozen worker ends by itself, which nothing can shorten.
    deployment.reaches("g/a", "success", within_s=240)
    assert len((tmp_path / "pids").read_text().split()) == 2
    assert not (tmp_path / "both").exists(), "two ran at once"

    # When the frozen worker continues, it learns that its effect is lost: from the refusal of its
    # result, or before that from its next sign of life.
    frozen.signal(signal.SIGCONT)
    deployment.sees(lambda: ENDED.search(frozen.output), what="the frozen worker gives up")
    assert deployment.client.show("g/a").state == "success"
    assert (tmp_path / "made.txt").read_text() == "done\n"
    assert [one.trigger for one in deployment.events("g/a")].count("agent_completed") == 1
