"""Whether a shell could run an agent's command, as far as that shows without running it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from interlock.kernel.errors import CallError
from interlock.workers.text import sentence

LIMIT_S = 10.0
_WORD = re.compile(r"[A-Za-z0-9_./+-]+")


class CommandError(CallError):
    """An agent's command cannot be run. Correct it."""

    def __init__(self, command: str, problem: str) -> None:
        super().__init__(f"the agent's command {sentence(command)!r}: {problem}")
        self.command, self.problem = command, problem


def check_command(command: str, folder: Path) -> None:
    """Refuse what is no shell command, or begins with a name that nothing here answers to.

    What begins otherwise, with a variable or a quote, shows only when it runs. Raises CommandError.
    """
    said = _bash("-n", "-c", command, folder=folder)
    if said is not None:
        raise CommandError(command, f"bash cannot read it: {said}")
    first = command.split(maxsplit=1)[0] if command.split() else ""
    # `type` knows builtins, keywords and programs alike; a path is looked up from the repository.
    known = f"type -- {first} >/dev/null 2>&1"
    if _WORD.fullmatch(first) and _bash("-c", known, folder=folder) is not None:
        raise CommandError(command, f"there is no command {first} on this machine")


def _bash(*words: str, folder: Path) -> str | None:
    """Return why bash refuses, or None where it does not."""
    try:
        done = subprocess.run(  # the words are one command's text, and nothing of it is run
            ["/usr/bin/env", "bash", *words],
            cwd=folder,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return f"bash gives no answer within {LIMIT_S:g} s"
    if done.returncode == 0:
        return None
    return sentence(done.stderr.strip().rpartition("\n")[2]) or f"exit code {done.returncode}"
