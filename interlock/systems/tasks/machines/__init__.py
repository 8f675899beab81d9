"""Coding tasks, with their agents, turns and identities."""
