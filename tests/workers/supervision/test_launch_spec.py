"""A launch spec is written completely, for its owner only, and read back."""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from interlock.workers.supervision.launch import SPEC_FILE, LaunchSpec


@dataclass(frozen=True, slots=True)
class Paths:
    worktree: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(LaunchSpec):
    command: str
    paths: Paths


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    folder = tmp_path / "owl~1"
    folder.mkdir()
    return Spec(
        key="owl/1#s",
        token="3",
        work_folder=str(folder),
        command="cat",
        paths=Paths(str(tmp_path)),
    )


def test_it_is_read_as_it_was_written_and_only_by_its_owner(spec: Spec) -> None:
    file = spec.write()

    assert file == Path(spec.work_folder) / SPEC_FILE
    assert Spec.read(file) == spec
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_another_attempt_writes_over_the_first(spec: Spec) -> None:
    spec.write()

    replace(spec, token="new").write()

    assert Spec.read(Path(spec.work_folder) / SPEC_FILE).token == "new"
