"""The effects of threads, one a file."""
