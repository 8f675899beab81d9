"""Files that several processes change at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.workers.files.atomic import locked, replace_bytes

ADD = """
import sys
from pathlib import Path
from interlock.workers.files.atomic import locked, replace_bytes
path = Path(sys.argv[1])
for _ in range(50):
    with locked(path):
        replace_bytes(path, path.read_bytes() + b"x")
"""


def test_no_change_is_lost_between_two_processes(tmp_path: Path) -> None:
    path = tmp_path / "count"
    path.write_bytes(b"")
    writers = [subprocess.Popen([sys.executable, "-c", ADD, str(path)]) for _ in range(2)]

    assert [writer.wait() for writer in writers] == [0, 0]
    assert path.read_bytes() == b"x" * 100


def test_a_failed_replacement_leaves_the_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "note"
    path.write_text("before")

    content: Any = "no bytes"

    with pytest.raises(TypeError):
        replace_bytes(path, content)

    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_mode_and_link_of_a_replaced_file_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "note", tmp_path / "link"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)

    replace_bytes(link, b"after")

    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()


def test_the_lock_of_a_missing_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), locked(tmp_path / "nowhere" / "note"):
        pass
