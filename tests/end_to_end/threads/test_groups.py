"""Groups of workers on different computers share one store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import ROOT, Deployment, thread

UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"]


def can_unshare() -> bool:
    """Return whether this computer allows new namespaces."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def is_ready(log: Path) -> bool:
    """Return whether the worker that writes this log consumes messages."""
    return b" ready." in log.read_bytes()


@contextmanager
def computer(deployment: Deployment, name: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run a worker as on another computer, with a separate host name and process table."""
    log = deployment.folder / f"{name}.log"
    celery = f"{sys.executable} -m celery -A tests.end_to_end.engine.app worker -P threads -c 4"
    quiet = "-n w@%h --without-mingle --without-gossip -l INFO"
    shell = ["sh", "-c", f"hostname {name} && exec {celery} {quiet}"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*UNSHARE, *shell],
            cwd=ROOT,
            env={**os.environ, **deployment.environment},
            stdout=output,
            stderr=output,
        )
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


@pytest.mark.proof
@pytest.mark.skipif(not can_unshare(), reason="namespaces need a privilege that we do not have")
def test_groups_with_separate_host_names_and_processes_share_one_store(
    new_deployment: NewDeployment,
) -> None:
    # The test cannot see which of the other computers' processes are alive.
    deployment = new_deployment()
    deployment.ends_lost_leases = False
    deployment.beat()
    with (
        computer(deployment, "alder") as (alder, alder_log),
        computer(deployment, "birch") as (_, birch_log),
    ):
        for log in (alder_log, birch_log):
            deployment.sees(partial(is_ready, log), what="ready")
        ids = [
            deployment.client.submit(thread("slow", seconds=2), machine="thread").id
            for _ in range(16)
        ]
        # A lost inference would ask a person; a lost execution starts again.
        deployment.sees(
            lambda: all(
                deployment.client.show(name).state in ("executing", "done") for name in ids
            ),
            what="every inference is over",
        )
        deployment.sees(lambda: len(deployment.recorded) >= 4, what="both are at work")
        alder.kill()

        ended = deployment.ends(*ids, within_s=240)

    assert {record.state for record in ended} == {"done"}
    claims = [note.detail for name in ids for note in deployment.notes(name, "claim")]
    hosts = {claim["holder"].partition(":")[0] for claim in claims}
    assert hosts == {"alder", "birch"}
    for name in ids:
        assert len({line["key"] for line in deployment.saw(name, "start")}) == 1
