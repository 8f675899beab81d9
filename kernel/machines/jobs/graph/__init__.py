"""The table of a graph of jobs."""
