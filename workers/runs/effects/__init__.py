"""The effects of runs, one a file."""
