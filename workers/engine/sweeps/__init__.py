"""The sweeps that serve every system, one a file."""
