"""Our own JSON lines, one report each; it keeps nothing from line to line."""

from __future__ import annotations

from interlock.workers.supervision.reports import LINE_BYTES_MAX, Told, parse_line


class InterlockStream:
    """Reads each line by itself."""

    line_bytes_max = LINE_BYTES_MAX

    def feed(self, line: bytes) -> Told:
        """Return the line's report, or why it is none; a blank line tells nothing."""
        return (parse_line(line),) if line.strip() else ()
