"""Reads our own JSON lines, one report each."""

from __future__ import annotations

from interlock.workers.supervision.reports import LINE_BYTES_MAX, LineReports, parse_line


class InterlockStream:
    """Reads each line by itself."""

    line_bytes_max = LINE_BYTES_MAX

    def feed(self, line: bytes) -> LineReports:
        """Return the line's report, or the reason why it has none; nothing for a blank line."""
        return (parse_line(line),) if line.strip() else ()
