"""Writes the reports of an agent, from its own process to its supervisor."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from math import ceil

from interlock.workers.config import Settings
from interlock.workers.engine.trace_context import brief_traces
from interlock.workers.processes.agent.process import REPORT_FD
from interlock.workers.specs.json_line import plain_text
from interlock.workers.supervision.streams.interlock import WAIT_S_MAX

# A line holds 64 KiB, and one character may take six bytes of it.
_LINE_ROOM_BYTES = 60_000
_LENGTH_ALWAYS_FITTING = 8_000


class ReportWriter:
    """Writes reports to the supervisor of this process, one line of JSON each.

    An agent that is written in Python reports with it as others do with `interlock report`:

        ReportWriter().write("message", text="I have read the page.")
    """

    def __init__(self) -> None:
        """Find the supervisor; where none listens every report is dropped."""
        descriptor = os.environ.get(REPORT_FD, "")
        self._descriptor = int(descriptor) if descriptor.isdigit() else None

    def write(self, kind: str, **fields: object) -> None:
        """Write one report; a text is cut to the length that a line can hold.

        Raises BrokenPipeError where the supervisor is gone.
        """
        cut = {name: _cut(one) if isinstance(one, str) else one for name, one in fields.items()}
        left = json.dumps({"type": kind, **cut}, ensure_ascii=False).encode() + b"\n"
        while left and self._descriptor is not None:
            left = left[os.write(self._descriptor, left) :]

    def traced(self, settings: Settings, service: str) -> AbstractContextManager[None]:
        """Send the spans of a block, with which the process ends, below that of its work.

        Its questions to models have spans too; `service` names the process. Raises SettingsError.
        """
        return brief_traces(settings, service, asks_models=True)

    def failed(self, error: str, *, retry_after_s: float | None = None) -> None:
        """Write that the agent failed, and after which time trying again may succeed."""
        fields: dict[str, object] = {"error": error}
        if retry_after_s is not None and 0 <= retry_after_s <= WAIT_S_MAX:
            fields["retry_after_s"] = ceil(retry_after_s)
        self.write("failed", **fields)


def _cut(text: str) -> str:
    """Return a text that JSON can carry, cut to the length that a line can hold."""
    plain = plain_text(text)
    size = len(json.dumps(plain, ensure_ascii=False).encode())
    return (
        plain if size <= _LINE_ROOM_BYTES else plain_text(text, length_max=_LENGTH_ALWAYS_FITTING)
    )
