"""A graph of jobs: what all its jobs share.

`payloads` has what a graph is created from and what each trigger carries, with the limits and
defaults of every field. `table` has all the rest.
"""
