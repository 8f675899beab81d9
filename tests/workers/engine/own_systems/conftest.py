"""A project with systems of its own: the programs of the page, and a package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.workers.config import environment_without_settings
from interlock.workers.gateways.server import EmbeddedServer
from tests.end_to_end.deployment import Process
from tests.known_systems import know_only_ours
from tests.preloaded_process import Preloaded
from tests.waiting import until
from tests.workers.engine.own_systems.programs import BILLING, DOCUMENTS, READY_S
from tests.workers.sixth_system import FILES

INTERLOCK = "import sys; sys.path.pop(0); from interlock.__main__ import main; main()"
MODULES = ("billing", "billing_page", "documents", "parcels", "wrong", "table")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of a project that has the module of the page and the package `parcels`."""
    folder = tmp_path / "project"
    for name, text in {**FILES, "billing.py": BILLING, "documents.py": DOCUMENTS}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return folder


@pytest.fixture
def added(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process find the modules, and forget the systems after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(project)
    know_only_ours(monkeypatch)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in MODULES]:
        del sys.modules[name]


@pytest.fixture
def environment(server: EmbeddedServer, prefix: str, tmp_path: Path) -> dict[str, str]:
    return {
        "INTERLOCK_STORE_URL": server.url,
        "INTERLOCK_PREFIX": prefix,
        "INTERLOCK_NAMESPACE": prefix,
        "INTERLOCK_HOME": str(tmp_path / "home"),
        "INTERLOCK_SYSTEMS": "billing, parcels, documents",
        # Nobody listens there, and nothing here asks a model.
        "INTERLOCK_MODEL": "local",
        "INTERLOCK_MODEL_BASE_URL": "http://127.0.0.1:9/v1",
    }


@pytest.fixture
def run(project: Path, environment: dict[str, str]) -> Run:
    """Return what runs `interlock` in the folder of the project."""

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", INTERLOCK, *words],
            cwd=project,
            env={**environment_without_settings(), **environment, **variables},
            check=False,
            capture_output=True,
            text=True,
        )

    return run


@pytest.fixture
def worker(
    preloaded: Preloaded, project: Path, environment: dict[str, str], tmp_path: Path
) -> Iterator[Path]:
    """Start a worker that finds the modules of the project and return its log."""
    variables = {
        **environment_without_settings(),
        **environment,
        "INTERLOCK_CAPABILITIES_ROOT": str(project),
    }
    log = tmp_path / "worker.log"
    words = ["-q", "-A", "interlock.workers.main", "worker", "-P", "threads", "-c", "2"]
    quiet = ["--without-mingle", "--without-gossip", "--loglevel=INFO"]
    process = Process("worker", preloaded.start([*words, *quiet], variables, log), log)
    try:
        until(process.is_ready, what="the worker is ready", within_s=READY_S)
        yield log
    finally:
        process.kill()
