"""The coding task: claimed, worked on in a worktree of its own, verified, merged, closed."""
