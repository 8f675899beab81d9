"""Reads the output of a plain command: its lines are a log, not reports."""

from __future__ import annotations

from interlock.workers.supervision.reports import LINE_BYTES_MAX, LineReports


class PlainStream:
    """Reports nothing for any line."""

    line_bytes_max = LINE_BYTES_MAX

    def feed(self, line: bytes) -> LineReports:
        """Return nothing, even for a line that looks like a report."""
        del line
        return ()
