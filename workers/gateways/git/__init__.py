"""Git: worktrees, commits, merges and pushes through the `git` program; none else runs it.

Three rules hold for all of it. The user's uncommitted work is never touched. Every step may be
repeated after a crash. Every call ends: a limit of time, no prompt, no editor, no hook.
"""
