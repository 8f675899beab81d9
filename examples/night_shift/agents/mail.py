"""Shared by both agents of the night shift: reads the mail of a prompt and sends reports."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass

HEAD = re.compile(r"^## (?:urgent )?(\w+) (\S+) from ([\w-]+), .*$", re.MULTILINE)


@dataclass(frozen=True)
class Message:
    """One message of a prompt."""

    id: str
    kind: str
    sender: str
    text: str


def messages(prompt: str) -> list[Message]:
    """Return the mail in a prompt, also that of a failed session, which is shown again."""
    heads = list(HEAD.finditer(prompt))
    begins = [*(head.start() for head in heads), len(prompt)]
    found = []
    for head, end in zip(heads, begins[1:], strict=True):
        text = prompt[head.end() : end].partition("\n# ")[0].strip()
        found.append(Message(head[2], head[1], head[3], text))
    return found


def report(**fields: object) -> None:
    """Send a report to the supervisor: one line of JSON on the report descriptor."""
    channel = int(os.environ["INTERLOCK_REPORT_FD"])
    os.write(channel, json.dumps(fields).encode() + b"\n")


def git(*arguments: str) -> str:
    """Run git in the worktree and return its output."""
    name = os.environ["INTERLOCK_AGENT"]
    identity = ("-c", f"user.name={name}", "-c", f"user.email={name}@localhost")
    done = subprocess.run(
        ["/usr/bin/env", "git", *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
