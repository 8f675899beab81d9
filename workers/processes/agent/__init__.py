"""One agent's process and all it starts: contained, watched, and ended to the last of it."""
