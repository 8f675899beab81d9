"""The files of graphs: how they are read, with a list of all problems, and written."""
