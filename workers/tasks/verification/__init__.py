"""How the work of a task is verified before it is merged."""
