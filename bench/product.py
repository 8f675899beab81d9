"""The real worker, which also writes its counts: `celery -A bench.product worker`."""

from __future__ import annotations

from bench.marks import Marks
from interlock.workers.main import app

Marks().listen()

__all__ = ["app"]
