"""Reads the output of a plain command: its lines are a log, not reports."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.workers.supervision.reports import Report
from interlock.workers.supervision.streams.interlock import LINE_BYTES_MAX


class PlainStream:
    """Reports nothing for any line."""

    line_bytes_max = LINE_BYTES_MAX
    reports_result = False

    def feed(self, line: bytes) -> Sequence[Report]:
        """Return nothing, even for a line that looks like a report."""
        del line
        return ()
