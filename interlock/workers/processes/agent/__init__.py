"""Runs one agent's process, and makes sure that every process it starts ends too."""
