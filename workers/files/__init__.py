"""Files that others change as well, or that have to survive a crash."""
