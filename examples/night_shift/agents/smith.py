"""The smith: mends what it is asked to, one function a letter. Its very first repair goes wrong."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from letters import git, letters, report

OPERATORS = {"add": "+", "subtract": "-", "multiply": "*"}
# Untracked, so that it stays in the worktree alone.
BURNT = Path(".burnt")
SOURCE = Path("calculator.py")


def mend(name: str) -> None:
    """Mend one function, and commit it."""
    source = SOURCE.read_text("utf-8")
    body = rf"(def {name}\(a, b\):\n    return a) \S+ b"
    SOURCE.write_text(re.sub(body, rf"\1 {OPERATORS[name]} b", source), "utf-8")
    # A session that was interrupted is followed by one that is shown its mail again.
    if git("status", "--porcelain", "calculator.py"):
        git("commit", "--quiet", "--message", f"Mend {name}", "calculator.py")


def write_the_manual() -> None:
    """Take all night, one line after the other."""
    print("writing the manual", flush=True)
    with Path("MANUAL.md").open("a", encoding="utf-8") as manual:
        for _ in range(600):
            manual.write("Press a key, then press another.\n")
            manual.flush()
            time.sleep(0.1)


def main() -> None:
    """Do one session: repairs first, whatever else was asked."""
    mail = letters(sys.stdin.read())
    for letter in mail:
        if letter.kind == "task":
            if not BURNT.exists():
                BURNT.touch()
                SOURCE.write_text("def add(a, b):\n    ret", "utf-8")
                sys.exit("the forge exploded in the middle of a repair")
            git("checkout", "--quiet", "--", "calculator.py")
            mend(letter.text)
            print(f"mended {letter.text}")
            report(type="mail", to="scout", kind="status", text=f"{letter.text} is mended")
    if any(letter.kind == "message" for letter in mail):
        write_the_manual()


if __name__ == "__main__":
    main()
