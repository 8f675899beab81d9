"""The kernel of Interlock: it decides and remembers; it never runs anything."""
