"""Two long-lived agents that pass work to each other by mail, one of which crashes on purpose."""
