"""A capability that stops its whole process, as native code does that keeps Python's lock."""

from __future__ import annotations

import os
import signal

from tests.end_to_end.threads.capabilities import declared, record_call


def freezing(*, record_id: str, key: str) -> str:
    """Stop all threads of this process."""
    record_call("start", record_id, key)
    os.kill(os.getpid(), signal.SIGSTOP)
    return "it went on"


CAPABILITIES = (declared("freezing", freezing, idempotent=True),)
