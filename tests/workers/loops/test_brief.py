"""A brief: written for its owner alone, read as it was, and of nobody where it is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from interlock.workers.loops.brief import FILE, SessionBrief, key_told, read_brief


@pytest.fixture
def brief(tmp_path: Path) -> SessionBrief:
    return SessionBrief(
        key="owl/1:3.0:a",
        token="token",
        work_folder=str(tmp_path / "agents" / "owl"),
        worktree="/w",
        command="echo 'ä'",
        prompt="prompt-0.md",
        digest="0" * 64,
        session_seq=7,
    )


def test_a_brief_is_read_as_it_was_written_and_by_its_owner_alone(brief: SessionBrief) -> None:
    file = brief.write()

    assert file == Path(brief.work_folder) / FILE
    assert read_brief(file) == brief
    assert file.stat().st_mode & 0o777 == 0o600, "it holds the token of a lease"
    assert key_told(Path(brief.work_folder)) == brief.key


def test_a_brief_of_another_attempt_takes_its_place(brief: SessionBrief) -> None:
    brief.write()

    replace(brief, token="new").write()

    assert read_brief(Path(brief.work_folder) / FILE).token == "new"
    assert [file.name for file in Path(brief.work_folder).iterdir()] == [FILE]


@pytest.mark.parametrize("text", [None, "", '{"key": "owl'])
def test_papers_without_a_whole_brief_are_of_no_session(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / FILE).write_text(text)

    assert key_told(tmp_path) is None
