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
    """Return what reads the lines of one process. `ReportListener` explains the arguments."""
    kinds = ReportKinds.SESSION if has_session else ReportKinds.AGENT
    return InterlockStream(kinds, only) if form == "interlock" else STREAMS[form](kinds)
