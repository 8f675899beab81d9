"""The processes of one machine start together, and none outlives its owner."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.workers.client import Client
from interlock.workers.config import Settings
from interlock.workers.gateways.server import free_port
from interlock.workers.ops import deployment
from interlock.workers.ops.deployment import Deployment, DeploymentError
from interlock.workers.processes.bound_process import start_bound
from tests.end_to_end.deployment import thread
from tests.processes import is_alive
from tests.waiting import until


def settings_in(folder: Path, **options: Any) -> Settings:
    """Return settings whose home is a folder of the test."""
    return Settings(home=folder / "home", **options)


def replace_celery(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every process of a deployment run this script instead of Celery."""
    program = folder / "celery.py"
    program.write_text(script)

    def start(command: list[str], **options: Any) -> Any:
        name = Path(options["output"].name).stem
        return start_bound([sys.executable, str(program), name, *command], **options)

    monkeypatch.setattr(deployment, "start_bound", start)


def test_a_process_that_ends_at_its_start_is_named_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_celery(tmp_path, "raise SystemExit('no')", monkeypatch)
    url = f"redis://127.0.0.1:{free_port()}/0"

    with pytest.raises(DeploymentError, match=r"ended at its start; read .*\.log"):
        Deployment(settings_in(tmp_path, store_url=url), flower=False).__enter__()


def test_a_deployment_that_is_not_ready_in_time_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import os, time; open(f'{os.getpid()}.pid', 'w').close(); time.sleep(60)"
    replace_celery(tmp_path, script, monkeypatch)
    monkeypatch.setattr(deployment, "READY_S", 0.5)
    monkeypatch.chdir(tmp_path)
    url = f"redis://127.0.0.1:{free_port()}/0"

    with pytest.raises(DeploymentError, match="is not ready after"):
        Deployment(settings_in(tmp_path, store_url=url), flower=False).__enter__()

    started = [int(file.stem) for file in tmp_path.glob("*.pid")]
    assert not any(is_alive(pid) for pid in started)


def test_a_deployment_on_a_given_store_starts_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_celery(
        tmp_path, "import time; print('x ready.', flush=True); time.sleep(60)", monkeypatch
    )
    url = f"redis://127.0.0.1:{free_port()}/0"

    with Deployment(settings_in(tmp_path, store_url=url), flower=False) as started:
        assert started.settings.store_url == url
        assert started.dead() is None
        assert not (started.home / "store").exists()
        assert {file.name for file in (started.home / "log").glob("*.log")} == {
            "worker.log",
            "sweeps.log",
            "intake.log",
            "beat.log",
        }


def test_a_process_that_has_ended_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import sys, time\n"
        "print('x ready.', flush=True)\n"
        "time.sleep(0.3 if sys.argv[1] == 'beat' else 60)\n"
    )
    replace_celery(tmp_path, script, monkeypatch)
    url = f"redis://127.0.0.1:{free_port()}/0"

    with Deployment(settings_in(tmp_path, store_url=url), flower=False) as started:
        assert until(started.dead, what="a process ends") == "beat"


@pytest.mark.timeout(120)
def test_sweeps_run_while_every_thread_of_the_worker_is_busy(tmp_path: Path) -> None:
    settings = settings_in(
        tmp_path,
        concurrency=1,
        capabilities="tests.end_to_end.threads.capabilities",
        model="local",
        model_base_url="http://127.0.0.1:9/v1",
        sweep_period_s=0.2,
    )
    # The capability writes its journal into this folder.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPLOYMENT_FOLDER", str(tmp_path))
        with Deployment(settings, flower=False) as started:
            client = Client(started.settings)
            client.submit(thread("slow", seconds=60), machine="thread", id="one")
            until(lambda: client.show("one").state == "executing", what="it is executing")
            until((tmp_path / "recorded.jsonl").exists, what="the only thread is busy")
            swept = started.log("sweeps").read_text().count("succeeded")

            until(
                lambda: started.log("sweeps").read_text().count("succeeded") > swept + 10,
                what="sweeps go on",
            )

            assert "Task sweep.orphans" not in started.log("worker").read_text()
            assert client.show("one").state == "executing"
