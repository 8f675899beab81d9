"""The resolution thread: from something that happened to what was done about it."""
