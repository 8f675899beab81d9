"""Child processes and process groups."""
