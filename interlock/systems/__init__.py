"""The systems that come with Interlock, a folder each. A new one needs its name here."""

from __future__ import annotations

NAMES = ("threads", "tasks", "jobs", "loops", "runs", "webhooks")
