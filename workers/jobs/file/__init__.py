"""Graph files: read with every problem in them named, and written."""
