"""What an agent left running on this machine, ended where nobody else is there to end it.

A watchdog ends it when the keeper dies, a keeper when the watchdog does. Where both are lost at
once, what they guarded goes on, and would write where another is at work, or where nothing is.
"""

from __future__ import annotations

import sys

from interlock.kernel.errors import UnknownRecordError
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.processes.agent.containment import end_marked
from interlock.workers.tasks.brief import mark_told
from interlock.workers.tasks.workplace import papers_of

END_S_MAX = 10.0


class RemainsError(OSError):
    """What an agent left running cannot be ended. Try again a little later."""


def end_remains(dispatch: Dispatch, agent: str) -> None:
    """Kill what still runs here of an agent that is dead. Raises RemainsError if some stays.

    To be called once the grace of its keeper is over. One that lives is let be.
    """
    try:
        dead = dispatch.views.record(agent).state == "dead"
    except UnknownRecordError:
        return
    end_left(mark_told(papers_of(agent, dispatch.settings)) if dead else None, of=agent)


def end_left(mark: str | None, *, of: str) -> None:
    """Kill what still runs here under an agent's mark. Raises RemainsError if some stays."""
    # Elsewhere the system does not show whose a process is.
    if mark and sys.platform == "linux" and not end_marked(mark, within_s=END_S_MAX):
        raise RemainsError(f"a process that {of} left behind cannot be ended")
