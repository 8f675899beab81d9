"""The systems that come with Interlock, a folder each. A new one needs its name here."""

from __future__ import annotations

NAMES = ("threads", "tasks", "jobs", "loops", "runs", "webhooks")


def module_of(name: str) -> str:
    """Return the module that has the SYSTEM of one of these systems."""
    return f"{__name__}.{name}.system"
