"""A renamed step begins at once where a new worker is up, also while an old one stays up."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from interlock.workers.gateways.server import EmbeddedServer
from tests.end_to_end.workflow.test_change_under_load import ANSWER, CREATE, Trial, answered, ended
from tests.waiting import until

RECORDS = 40
LATE_MS = 5_000

pytestmark = pytest.mark.slow(minutes=0.5)


def test_a_renamed_step_begins_at_once_while_an_old_worker_stays_up(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "store") as store, ExitStack() as stack:
        trial = Trial(tmp_path, store.url, "t")
        trial.worker("old", stack)
        celery = (sys.executable, "-m", "celery", "-A", "interlock.workers.main")
        beat = stack.enter_context(trial.start("old", *celery, "beat", "--pidfile=", "-s", "beat"))
        stack.callback(beat.kill)
        ended(trial.code("old", CREATE, records=RECORDS))
        trial.worker("new", stack)

        assert answered(trial.code("new", ANSWER, first=0, last=RECORDS)) == {"taken": RECORDS}

        until(lambda: trial.in_state("done") == RECORDS, what="all are paid", within_s=60)
        late = sorted(trial.ms_until_paid(f"r-{n}") for n in range(RECORDS))
        assert late[-1] < LATE_MS, late
