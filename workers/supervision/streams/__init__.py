"""The readers of agents' output, by the name in an agent's settings. A new one goes here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.workers.supervision.reports import AgentStream
from interlock.workers.supervision.streams.claude import ClaudeStream
from interlock.workers.supervision.streams.interlock import InterlockStream
from interlock.workers.supervision.streams.plain import PlainStream

STREAMS: Mapping[str, Callable[[], AgentStream]] = {
    "plain": PlainStream,
    "interlock": InterlockStream,
    "claude": ClaudeStream,
}
