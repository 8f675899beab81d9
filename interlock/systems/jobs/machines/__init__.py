"""Reviewed jobs, and the graphs that they depend on each other in."""
