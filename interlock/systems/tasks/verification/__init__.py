"""Verifies the work of a task before it is merged."""
