"""The sweeps of coding tasks, one a file."""
