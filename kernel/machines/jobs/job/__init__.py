"""The table of a job, a step of a graph."""
