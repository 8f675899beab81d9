"""A canary: a thread that Interlock submits itself, to see that work gets through."""
