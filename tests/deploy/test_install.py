"""What is installed collides with nothing: a project may have its own `workers` and `kernel`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from interlock.workers.gateways.server import EmbeddedServer
from tests.fresh_worker import fresh_worker

ROOT = Path(__file__).parents[2]
PARTS = ("interlock", "pyproject.toml", "README.md", "LICENSE", "NOTICE")

CAPABILITIES = """
from pathlib import Path

from interlock import capability
from workers.notes import NAME


@capability(idempotent=True, irreversibility="low", deadline_s=60)
def jot(text: str) -> str:
    '''Write a note.'''
    Path(NAME).write_text(text)
    return NAME
"""
PRODUCER = """
import interlock
import kernel
import workers
from interlock import Client, Threads

assert kernel.OWNER == workers.OWNER == "the project"
assert "site-packages" in interlock.__file__, interlock.__file__
action = {
    "kind": "standard",
    "capability": "jot",
    "parameters": {"text": "from the project"},
    "irreversibility": "low",
    "regret_potential": "low",
    "risk_amplifier": False,
}
request = {
    "inciting": {"source": "test", "title": "note it"},
    "policy": "end_to_end",
    "given": {"intent": "note it", "item_ids": [], "action": action},
}
client = Client()
thread = Threads(client).submit(request).id
print(client.wait(thread, timeout_s=60).data["result"])
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a new environment in which only the wheel of this project is installed.

    Its dependencies are those of the environment of the tests; our own folder is not on its path.
    """
    folder = tmp_path_factory.mktemp("install")
    source = folder / "source"
    source.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            skipped = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, source / part, symlinks=True, ignore=skipped)
        else:
            shutil.copy(ROOT / part, source / part)
    environment = folder / "environment"
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    [site] = environment.glob("lib/python*/site-packages")
    # pip makes the wheel and unpacks it. Most modules are not imported, so none is compiled.
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--no-compile"]
    run([*pip, *offline, "--target", str(site), str(source)])
    # A path alone: what would make our editable install importable there is not followed.
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return environment / "bin" / "python"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with packages of its own that are called as our folders are."""
    for name in ("workers", "kernel"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text('OWNER = "the project"\n')
    (tmp_path / "workers" / "notes.py").write_text('NAME = "note.txt"\n')
    (tmp_path / "capabilities.py").write_text(CAPABILITIES)
    return tmp_path


@pytest.fixture
def environment(server: EmbeddedServer, prefix: str, project: Path) -> Mapping[str, str]:
    kept = {name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")}
    return {
        **kept,
        "INTERLOCK_STORE_URL": server.url,
        "INTERLOCK_PREFIX": prefix,
        "INTERLOCK_NAMESPACE": prefix,
        "INTERLOCK_HOME": str(project / "home"),
        "INTERLOCK_CAPABILITIES": "capabilities",
    }


@pytest.fixture
def worker(python: Path, project: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Start a worker in the project's folder and return its log."""
    with fresh_worker(python, project, environment, project / "worker.log") as log:
        yield log


def test_a_thread_runs_beside_a_projects_own_workers_and_kernel(
    python: Path, project: Path, environment: Mapping[str, str], worker: Path
) -> None:
    assert worker.exists()

    done = run([str(python), "-c", PRODUCER], folder=project, environment=environment)

    assert done.stdout.strip() == "note.txt"
    assert (project / "note.txt").read_text() == "from the project"


def test_the_package_has_no_links_so_that_a_checkout_without_them_can_be_imported() -> None:
    assert not [path for path in (ROOT / "interlock").rglob("*") if path.is_symlink()]


@pytest.mark.parametrize("name", ["kernel", "workers"])
def test_the_links_at_the_top_cannot_be_imported(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}.layout"],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )

    assert (ROOT / name).resolve() == ROOT / "interlock" / name
    assert done.stderr.strip().endswith(
        f"ImportError: {name} is no package of its own: import interlock.{name}"
    )


def test_the_wheel_brings_files_and_no_links(python: Path) -> None:
    listed = "import interlock, pathlib; print(pathlib.Path(interlock.__file__).parent)"
    folder = Path(run([str(python), "-c", listed], folder=Path("/")).stdout.strip())

    assert not [path for path in folder.rglob("*") if path.is_symlink()]
    assert (folder / "py.typed").exists()
    assert (folder / "kernel" / "store" / "lua" / "commit.lua").exists()
    assert (folder / "workers" / "processes" / "agent" / "watchdog.py").exists()


def run(
    command: list[str], *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done
