"""Stored prompts: what is read is what was stored, or it is said to be lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.workers.loops.stored import PromptLostError, read_prompt, store_prompt


def test_a_prompt_is_read_as_it_was_stored_and_by_its_owner_alone(tmp_path: Path) -> None:
    text = "# You are owl\n\nGrüß Gott\n"
    name, digest = store_prompt(tmp_path / "owl", text)

    assert read_prompt(tmp_path / "owl", name, digest) == text
    assert (tmp_path / "owl" / name).stat().st_mode & 0o777 == 0o600


def test_a_prompt_that_is_stored_meanwhile_stands_beside_the_first(tmp_path: Path) -> None:
    stored = [store_prompt(tmp_path, text) for text in ("first", "second")]

    assert [read_prompt(tmp_path, *one) for one in stored] == ["first", "second"]


def test_a_prompt_that_is_gone_or_another_is_lost_and_is_named(tmp_path: Path) -> None:
    name, digest = store_prompt(tmp_path, "mend the barn")
    (tmp_path / name).write_text("burn the barn")
    with pytest.raises(PromptLostError, match="is not the one that was stored"):
        read_prompt(tmp_path, name, digest)

    (tmp_path / name).unlink()
    with pytest.raises(PromptLostError, match=f"{name} cannot be read: No such file"):
        read_prompt(tmp_path, name, digest)
