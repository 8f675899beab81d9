"""The effects that long-lived agents owe.

A new effect also needs its line in HANDLERS of interlock/systems/loops/effects/__init__.py.
"""

from __future__ import annotations

from interlock import Effect

# An agent's worktree, prompt and session are on one computer, its host.
WORKTREE = Effect("worktree", attempts_max=20, exclusive=True, local=True)
PROMPT = Effect("prompt", attempts_max=20, exclusive=True, local=True)
SESSION = Effect("session", exclusive=True, local=True)
MAIL_CHECK = Effect("mail_check", attempts_max=20, quick=True)
AGENT_CLEANUP = Effect("agent_cleanup", attempts_max=20, exclusive=True, local=True)
