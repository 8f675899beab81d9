"""What a codon says of itself: lines of JSON to the descriptor that Interlock gives it."""

from __future__ import annotations

import json
import os

ROW_MICRO = 20


def say(kind: str, **fields: object) -> None:
    """Say one line; nobody hears it where the script is run by hand."""
    descriptor = os.environ.get("INTERLOCK_REPORT_FD", "")
    if descriptor.isdigit():
        os.write(int(descriptor), (json.dumps({"type": kind, **fields}) + "\n").encode())


def begin(rows: int) -> None:
    """Open the session, and say with how many rows."""
    say("session", id=f"{os.environ.get('INTERLOCK_CODON', 'by-hand')}-{os.getpid()}")
    say("progress", message=f"{rows} rows come in", percent=0)


def end(rows: int, looked_at: int, text: str) -> None:
    """Say what was done, what it cost (20 micro-dollars for a row looked at), and that it is it."""
    say("progress", message=f"{rows} rows go out", percent=100)
    say("usage", cost_micro=looked_at * ROW_MICRO)
    say("message", text=text)
    say("result", text=text)
    print(text)
