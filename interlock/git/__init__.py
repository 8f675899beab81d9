"""Git: worktrees, commits, merges and pushes. Only this package runs the `git` program.

It keeps three rules. It does not touch the user's uncommitted work. Every step may be repeated
after a crash. Every call ends: git has a time limit, and runs without prompts, editors and hooks.
"""
