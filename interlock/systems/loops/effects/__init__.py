"""The effects of long-lived agents, one in each file. A new one needs its line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.system.records import Handler
from interlock.systems.loops.effects.agent_cleanup import agent_cleanup
from interlock.systems.loops.effects.mail_check import mail_check
from interlock.systems.loops.effects.prompt import prompt
from interlock.systems.loops.effects.session import session
from interlock.systems.loops.effects.worktree import worktree

HANDLERS: Mapping[str, Handler] = {
    "agent_cleanup": agent_cleanup,
    "mail_check": mail_check,
    "prompt": prompt,
    "session": session,
    "worktree": worktree,
}
