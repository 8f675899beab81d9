"""The work folders of supervisors are deleted when they are old, and only then."""

from __future__ import annotations

import os
from pathlib import Path

from interlock.systems.tasks.work_folders import delete_old_work_folders
from interlock.workers.config import Settings

DAY_S = 86_400


def work_folder(home: Path, name: str, *, age_s: float) -> Path:
    folder = home / "supervisors" / "b" / name
    folder.mkdir(parents=True)
    log = folder / "output.log"
    log.touch()
    for path in (log, folder):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age_s))
    return folder


def test_only_folders_without_recent_writes_are_deleted(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, prune_after_s=DAY_S)
    old, young = (
        work_folder(tmp_path, "a~1", age_s=2 * DAY_S),
        work_folder(tmp_path, "a~2", age_s=0),
    )
    at_work = work_folder(tmp_path, "a~3", age_s=2 * DAY_S)
    (at_work / "output.log").write_text("more")

    assert delete_old_work_folders(settings) == 1

    assert (old.exists(), young.exists(), at_work.exists()) == (False, True, True)
    assert delete_old_work_folders(Settings(home=tmp_path / "none")) == 0
