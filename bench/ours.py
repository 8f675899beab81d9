"""The measured worker of Interlock's side: `celery -A bench.ours worker`."""

from __future__ import annotations

from bench.app import assemble
from interlock.workers.config import read_settings

app = assemble(read_settings())
