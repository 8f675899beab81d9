"""Long-lived agents: their worktrees, prompts, mail, sessions and the supervisor of a session."""
