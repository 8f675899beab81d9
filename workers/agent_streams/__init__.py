"""How an agent's output is read, by the name an agent is declared with. A new one goes here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workers.agent_report import AgentStream
from workers.agent_streams.claude import ClaudeStream
from workers.agent_streams.interlock import InterlockStream
from workers.agent_streams.plain import PlainStream

STREAMS: Mapping[str, Callable[[], AgentStream]] = {
    "plain": PlainStream,
    "interlock": InterlockStream,
    "claude": ClaudeStream,
}
