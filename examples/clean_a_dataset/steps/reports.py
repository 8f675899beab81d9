"""The reports of a codon: lines of JSON to the file descriptor that Interlock gives it."""

from __future__ import annotations

import json
import os

ROW_MICRO = 20


def write(kind: str, **fields: object) -> None:
    """Write one report; without a descriptor, when the script is run by hand, drop it."""
    descriptor = os.environ.get("INTERLOCK_REPORT_FD", "")
    if descriptor.isdigit():
        os.write(int(descriptor), (json.dumps({"type": kind, **fields}) + "\n").encode())


def begin(rows: int) -> None:
    """Report the session and the number of rows that come in."""
    write("session", id=f"{os.environ.get('INTERLOCK_CODON', 'by-hand')}-{os.getpid()}")
    write("progress", message=f"{rows} rows come in", percent=0)


def end(rows: int, rows_read: int, text: str) -> None:
    """Report the rows that go out, the cost (20 micro-dollars a row read), and the result."""
    write("progress", message=f"{rows} rows go out", percent=100)
    write("usage", cost_micro=rows_read * ROW_MICRO)
    write("message", text=text)
    write("result", text=text)
    print(text)
