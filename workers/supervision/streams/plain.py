"""The output of a command that reports nothing: its lines are a log and never a report."""

from __future__ import annotations

from interlock.workers.supervision.reports import LINE_BYTES_MAX, Told


class PlainStream:
    """Tells nothing of any line."""

    line_bytes_max = LINE_BYTES_MAX

    def feed(self, line: bytes) -> Told:
        """Return nothing: whatever the line looks like, no one promised that it is a report."""
        del line
        return ()
