"""The effects that every system may owe, one a file."""
