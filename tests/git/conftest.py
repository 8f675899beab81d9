"""A computer where git knows nobody's name, a repository on it, and a way to stand before git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.git import program
from interlock.git.repository import Repository
from interlock.git.worktree import Worktree
from tests.git.scene import REAL_GIT, copy_task, make_repository, open_copy
from tests.waiting import until


@pytest.fixture(autouse=True)
def bare_computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in tuple(os.environ):
        if name.startswith("GIT_") or name == "EMAIL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    # Without it git would make up a name from the computer's.
    (home / ".gitconfig").write_text("[user]\nuseConfigOnly = true\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def repository(root: Path) -> Repository:
    return open_copy(root)


@pytest.fixture
def tree(repository: Repository) -> Worktree:
    return copy_task(repository)


@pytest.fixture
def instead_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Run lines of shell before every git that we run; `$real` is the true one."""

    def install(lines: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "git"
        program.write_text(f'#!/bin/sh\nreal="{REAL_GIT}"\n{lines}\nexec "$real" "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return folder

    return install


@pytest.fixture
def hangs_from(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Path]:
    """Let the time of one git begin when it hangs, as a file shows that it writes before.

    The others have as much time as a slow computer needs, also to end when they are asked to.
    """

    def install(file: Path) -> Path:
        real, hung = program._exit_code, list[int]()

        def exit_code(process: subprocess.Popen[bytes], limit_s: float) -> int:
            def ended() -> bool:
                return process.poll() is not None

            until(lambda: ended() or (file.exists() and not hung), what="git ends or hangs")
            if not ended():
                hung.append(process.pid)
            return real(process, limit_s)

        monkeypatch.setattr(program, "_exit_code", exit_code)
        monkeypatch.setattr(program, "GIT_END_S", 60)
        return file

    return install
