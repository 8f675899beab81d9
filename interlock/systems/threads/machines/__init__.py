"""Threads: requests that are inferred, confirmed by a person and executed."""
