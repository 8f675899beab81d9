"""A sixth system is added by its own folders, and by a line in each of three files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.workers.config import environment_without_settings
from interlock.workers.gateways.server import EmbeddedServer
from tests.fresh_worker import fresh_worker
from tests.waiting import until
from tests.workers.sixth_system import FILES, LINES

ROOT = Path(__file__).parents[2]
READY_S = 60.0
INTERLOCK = "from interlock.workers.cli import main; main()"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project to which the system of `sixth_system.py` was added."""
    folder = tmp_path_factory.mktemp("sixth")
    for part in ("interlock", "kernel", "workers"):
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=skipped)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name, text in FILES.items():
        file = folder / name
        assert not file.exists(), "it only adds files"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for name, replacements in LINES.items():
        text = (folder / name).read_text("utf-8")
        for old, new in replacements:
            assert text.count(old) == 1, f"{name} has changed: {old!r}"
            text = text.replace(old, new)
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.fixture
def environment(server: EmbeddedServer, prefix: str, tree: Path, tmp_path: Path) -> dict[str, str]:
    return {
        **environment_without_settings(),
        "PYTHONPATH": str(tree),
        "INTERLOCK_STORE_URL": server.url,
        "INTERLOCK_PREFIX": prefix,
        "INTERLOCK_NAMESPACE": prefix,
        "INTERLOCK_HOME": str(tmp_path / "home"),
        # Nobody listens there, and nothing here asks a model.
        "INTERLOCK_MODEL": "local",
        "INTERLOCK_MODEL_BASE_URL": "http://127.0.0.1:9/v1",
    }


@pytest.fixture
def worker(tree: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[Path]:
    """Start a worker of the changed project and return its log."""
    with fresh_worker(Path(sys.executable), tree, environment, tmp_path / "worker.log") as log:
        yield log


def test_the_import_contracts_hold_with_it(tree: Path) -> None:
    lint = Path(sys.executable).with_name("lint-imports")

    done = subprocess.run(
        [str(lint), "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout


def test_its_effects_run_its_commands_answer_and_operators_see_it(
    tree: Path, environment: dict[str, str], worker: Path
) -> None:
    def interlock(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", INTERLOCK, *words],
            cwd=tree,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr + worker.read_text()
        return done.stdout

    def ask(*words: str) -> Any:
        return json.loads(interlock(*words, "--json"))

    assert "p1 goes to Oslo" in interlock("parcel", "send", "p1", "--to", "Oslo")
    until(
        lambda: ask("parcel", "track", "p1")["state"] == "delivered",
        what="both effects have run",
        within_s=READY_S,
    )

    assert "delivered" in interlock("parcel", "track", "p1")
    assert "Oslo" in interlock("show", "p1"), "its line says which fields are shown"
    assert ask("top")["others"]["parcel"] == {"delivered": 1}
    assert [row["id"] for row in ask("list", "--machine", "parcel")["records"]] == ["p1"]
    assert ask("verify", "p1")["faults"] == []
