"""The effects of long-lived agents, one in each file. A new one needs its line in HANDLERS."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workers.engine.work import Handler
from interlock.workers.loops.effects.agent_cleanup import agent_cleanup
from interlock.workers.loops.effects.mail_check import mail_check
from interlock.workers.loops.effects.prompt import prompt
from interlock.workers.loops.effects.session import session
from interlock.workers.loops.effects.worktree import worktree

HANDLERS: Mapping[str, Handler] = {
    "agent_cleanup": agent_cleanup,
    "mail_check": mail_check,
    "prompt": prompt,
    "session": session,
    "worktree": worktree,
}
