"""The effects of long-lived agents, one a file."""
