"""The streams by the format of the output that they read. A new format needs its line here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from interlock.workers.supervision.reports import ReportStream
from interlock.workers.supervision.streams.claude import ClaudeStream
from interlock.workers.supervision.streams.interlock import InterlockStream, ReportKinds
from interlock.workers.supervision.streams.plain import PlainStream

# Other programs do not know which reports a supervisor accepts: it ignores those without a meaning.
STREAMS: Mapping[str, Callable[[ReportKinds], ReportStream]] = {
    "plain": lambda _kinds: PlainStream(),
    "interlock": InterlockStream,
    "claude": lambda _kinds: ClaudeStream(),
}


def report_stream(
    form: str = "interlock", *, has_session: bool = False, only: Collection[str] = ()
) -> ReportStream:
    """Return what reads the lines of one process: `feed` returns the reports in a line.

    The form is `interlock`, of lines with our own reports, `claude`, of what Claude Code prints, or
    `plain`, of output without reports. With `has_session` our own lines may have those of a process
    whose session, messages and costs are recorded, and else those about work that a record
    describes: its splitting, its blocking, mail. With `only` they are of these types. A line of
    another type is rejected.
    """
    kinds = ReportKinds.SESSION if has_session else ReportKinds.AGENT
    return InterlockStream(kinds, only) if form == "interlock" else STREAMS[form](kinds)
