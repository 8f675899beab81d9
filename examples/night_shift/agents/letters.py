"""What both agents of the night shift do with a prompt: read its mail, and answer by reports."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass

MAIL = re.compile(r"^## (?:urgent )?(\w+) (\S+) from ([\w-]+), .*$", re.MULTILINE)


@dataclass(frozen=True)
class Letter:
    """One message of a prompt."""

    id: str
    kind: str
    sender: str
    text: str


def letters(prompt: str) -> list[Letter]:
    """Return the mail in a prompt, what the session before was sent included."""
    heads = list(MAIL.finditer(prompt))
    begins = [*(head.start() for head in heads), len(prompt)]
    found = []
    for head, end in zip(heads, begins[1:], strict=True):
        text = prompt[head.end() : end].partition("\n# ")[0].strip()
        found.append(Letter(head[2], head[1], head[3], text))
    return found


def report(**words: object) -> None:
    """Say something to the keeper: one line of JSON on its descriptor."""
    channel = int(os.environ["INTERLOCK_REPORT_FD"])
    os.write(channel, json.dumps(words).encode() + b"\n")


def git(*words: str) -> str:
    """Run git in the worktree and return what it says."""
    name = os.environ["INTERLOCK_AGENT"]
    own = ("-c", f"user.name={name}", "-c", f"user.email={name}@localhost")
    done = subprocess.run(
        ["/usr/bin/env", "git", *own, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
