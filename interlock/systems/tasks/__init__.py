"""Coding tasks: their agents, turns, identities and plans."""
