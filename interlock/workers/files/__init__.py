"""Files that other processes change as well, or that must survive a crash."""
