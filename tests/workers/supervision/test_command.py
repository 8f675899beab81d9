"""Commands of agents that are refused before they run, and those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.workers.supervision.command import CommandError, check_command


@pytest.mark.parametrize(
    "command",
    [
        "true",
        "while [ -e x ]; do :; done",
        "test -e x || exit 1; echo 42 > answer",
        "NAME=1 no-such-command",
        "'quoted command'",
        "(cd x; ls)",
        "./here.sh --flag",
    ],
)
def test_a_command_that_a_shell_can_run_is_accepted(tmp_path: Path, command: str) -> None:
    program = tmp_path / "here.sh"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    check_command(command, tmp_path)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("no-such-command --x", "there is no command no-such-command on this computer"),
        ("./not-here.sh", "there is no command ./not-here.sh on this computer"),
        ("if true; then", "bash cannot read it: .*unexpected end of file"),
        ("echo 'open", "bash cannot read it: .*unexpected EOF"),
    ],
)
def test_a_command_that_no_shell_can_run_is_refused_with_a_sentence(
    tmp_path: Path, command: str, problem: str
) -> None:
    with pytest.raises(CommandError, match=problem):
        check_command(command, tmp_path)


def test_no_part_of_the_command_is_run(tmp_path: Path) -> None:
    check_command("touch made; touch $(touch made-too)", tmp_path)

    assert list(tmp_path.iterdir()) == []
