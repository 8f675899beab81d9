"""The workspace: the folder that runs work on, one after another.

It is one page: all of it is in `table`, but for its numbers, which are in `runs/limits`.
"""
