"""How an agent's output is read, by the name an agent is declared with. A new one goes here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workers.supervision.reports import AgentStream
from workers.supervision.streams.claude import ClaudeStream
from workers.supervision.streams.interlock import InterlockStream
from workers.supervision.streams.plain import PlainStream

STREAMS: Mapping[str, Callable[[], AgentStream]] = {
    "plain": PlainStream,
    "interlock": InterlockStream,
    "claude": ClaudeStream,
}
