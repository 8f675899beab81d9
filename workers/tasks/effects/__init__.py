"""The effects of coding tasks, one a file."""
