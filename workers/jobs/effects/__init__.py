"""The effects of jobs and graphs, one a file."""
