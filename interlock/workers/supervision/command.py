"""Checks an agent's command for errors that show without running it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from interlock.kernel.errors import CallError
from interlock.workers.inherited import inherited
from interlock.workers.text import one_line

LIMIT_S = 10.0
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_./+-]+")


class CommandError(CallError):
    """An agent's command cannot be run. Correct it."""

    def __init__(self, command: str, problem: str) -> None:
        super().__init__(f"the command {one_line(command)!r}: {problem}")
        self.command, self.problem = command, problem


def check_command(command: str, folder: Path) -> None:
    """Raise CommandError if bash cannot parse the command or does not know its first word.

    A first word with a variable or a quote is not checked: only running the command shows it.
    """
    if "\0" in command:
        raise CommandError(command, "it has a NUL character")
    refusal = _bash("-n", "-c", command, folder=folder)
    if refusal is not None:
        raise CommandError(command, f"bash cannot read it: {refusal}")
    first = command.split(maxsplit=1)[0] if command.split() else ""
    # `type` knows builtins, keywords and programs; it looks a path up from the folder.
    known = f"type -- {first} >/dev/null 2>&1"
    if _PLAIN_NAME.fullmatch(first) and _bash("-c", known, folder=folder) is not None:
        raise CommandError(command, f"there is no command {first} on this computer")


def _bash(*arguments: str, folder: Path) -> str | None:
    """Return the reason why bash fails, or None if it does not."""
    try:
        done = subprocess.run(  # the arguments only parse or look up a command; they run none
            ["/usr/bin/env", "bash", *arguments],
            cwd=folder,
            env=inherited(),
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return f"bash gives no answer within {LIMIT_S:g} s"
    if done.returncode == 0:
        return None
    return one_line(done.stderr.strip().rpartition("\n")[2]) or f"exit code {done.returncode}"
