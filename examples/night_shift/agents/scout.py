"""The scout: merges the smith's repairs, runs the tests, and asks for the next repair."""

from __future__ import annotations

import re
import subprocess
import sys

from mail import git, messages, report


def first_failure() -> str:
    """Return the function whose test fails first, or an empty text."""
    # Without -B, Python would run the bytecode from before a repair of the same second and length.
    command = [sys.executable, "-B", "-m", "unittest", "-v"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    failed = re.search(r"^test_(\w+) .*\.\.\. FAIL$", done.stderr, re.MULTILINE)
    if failed is None and done.returncode:
        sys.exit(f"the tests cannot be run:\n{done.stderr}")
    return failed[1] if failed else ""


def main() -> None:
    """Run one session."""
    for message in messages(sys.stdin.read()):
        if message.kind == "status":
            print(f"{message.sender} wrote: {message.text}")
            git("merge", "--quiet", "--no-edit", "interlock/agents/smith")
    name = first_failure()
    if name:
        print(f"the test of {name} fails; the smith is asked")
        report(type="mail", to="smith", kind="task", urgent=True, text=name)
    else:
        print("every test passes")
        report(type="progress", message="every test passes", percent=100)


if __name__ == "__main__":
    main()
