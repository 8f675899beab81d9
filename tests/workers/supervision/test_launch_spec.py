"""A launch spec is written completely, for its owner only, and read back."""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from interlock.workers.supervision.launch import SPEC_FILE, LaunchSpec, process_label


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
    assert process_label(Path(spec.work_folder)) == spec.process_label


def test_leases_with_the_same_key_in_two_deployments_have_different_labels(
    spec: Spec, tmp_path: Path
) -> None:
    other = replace(spec, work_folder=str(tmp_path / "other"))

    assert other.process_label != spec.process_label


def test_another_attempt_writes_over_the_first(spec: Spec) -> None:
    spec.write()

    replace(spec, token="new").write()

    assert Spec.read(Path(spec.work_folder) / SPEC_FILE).token == "new"


@pytest.mark.parametrize("left", [None, "", '{"key": "owl'])
def test_without_a_supervisor_there_is_no_label(tmp_path: Path, left: str | None) -> None:
    if left is not None:
        (tmp_path / SPEC_FILE).write_text(left)

    assert process_label(tmp_path) is None
