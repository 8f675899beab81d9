"""A capability that launches a supervisor, as the effects of tasks and of long-lived agents do."""

from __future__ import annotations

from pathlib import Path

from interlock.workers.supervision.launch import launch
from tests.end_to_end.threads.capabilities import declared

PROBE = "tests.workers.supervision.probe_supervisor"


def launching(*, spec: str) -> str:
    """Launch a supervisor with its spec file."""
    launch(PROBE, Path(spec), lambda: None, every_s=5)
    return "launched"


CAPABILITIES = (declared("launching", launching, idempotent=True),)
