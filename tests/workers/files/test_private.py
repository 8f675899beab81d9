"""What is for one user alone cannot be entered or read by others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.workers.files.private import (
    NotPrivateError,
    PrivateFile,
    close_folder,
    make_folders,
    private_folder,
)


def mode_of(path: Path) -> int:
    """Return the permissions of a file or folder."""
    return path.stat().st_mode & 0o7777


def test_a_new_folder_and_those_above_it_are_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)

    make_folders(tmp_path / "open" / "a" / "b")

    assert mode_of(tmp_path / "open" / "a") == mode_of(tmp_path / "open" / "a" / "b") == 0o700
    assert mode_of(tmp_path / "open") == 0o755


def test_a_folder_that_is_open_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    assert private_folder(tmp_path) == tmp_path
    assert mode_of(tmp_path) == 0o700


def test_a_folder_that_users_share_is_refused_and_stays_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o1777)

    with pytest.raises(NotPrivateError, match=f"{tmp_path} is a folder that users share"):
        private_folder(tmp_path)
    close_folder(tmp_path)

    assert mode_of(tmp_path) == 0o1777
    assert "other users of this computer may read what is in a folder" in caplog.text


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    this_user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: this_user + 1)

    with pytest.raises(NotPrivateError, match=f"belongs to another user .id {this_user}."):
        private_folder(tmp_path)


def test_a_file_that_others_could_read_is_closed_before_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("an older and longer one")
    file.chmod(0o644)

    PrivateFile(file).write("hush")

    assert (file.read_text(), mode_of(file)) == ("hush", 0o600)
