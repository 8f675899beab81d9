"""Reads the files of graphs, with a list of all their problems, and writes them."""
