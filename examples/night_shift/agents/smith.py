"""The smith: repairs one function for each message. Its first repair crashes on purpose."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from mail import git, messages, report

OPERATORS = {"add": "+", "subtract": "-", "multiply": "*"}
# Marks that the crash has happened. It is not committed, so that only this worktree has it.
CRASHED = Path(".burnt")
SOURCE = Path("calculator.py")


def repair(name: str) -> None:
    """Repair one function and commit it."""
    source = SOURCE.read_text("utf-8")
    body = rf"(def {name}\(a, b\):\n    return a) \S+ b"
    SOURCE.write_text(re.sub(body, rf"\1 {OPERATORS[name]} b", source), "utf-8")
    # After an interrupt the same message is shown again, and its repair may be committed already.
    if git("status", "--porcelain", "calculator.py"):
        git("commit", "--quiet", "--message", f"Repair {name}", "calculator.py")


def write_the_manual() -> None:
    """Write lines for a minute, so that an urgent message can interrupt the work."""
    print("writing the manual", flush=True)
    with Path("MANUAL.md").open("a", encoding="utf-8") as manual:
        for _ in range(600):
            manual.write("Press a key, then press another.\n")
            manual.flush()
            time.sleep(0.1)


def main() -> None:
    """Run one session: all repairs first, then mail about each, then the manual."""
    mail = messages(sys.stdin.read())
    tasks = {message.id: message.text for message in mail if message.kind == "task"}
    if tasks and not CRASHED.exists():
        CRASHED.touch()
        SOURCE.write_text("def add(a, b):\n    ret", "utf-8")
        sys.exit("it crashed in the middle of a repair")
    for name in tasks.values():
        git("checkout", "--quiet", "--", "calculator.py")
        repair(name)
        print(f"repaired {name}")
    # Who is given the first of this mail may look at once, and finds every repair. A session after
    # an interrupt repairs and reports again what it is shown again: mail with an id is sent once.
    for message, name in tasks.items():
        text = f"{name} is repaired"
        report(type="mail", id=f"repaired {message}", to="scout", kind="status", text=text)
    if any(message.kind == "message" for message in mail):
        write_the_manual()


if __name__ == "__main__":
    main()
