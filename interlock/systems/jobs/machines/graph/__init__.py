"""A graph of jobs: what all its jobs share.

`payloads` has what a graph is created from and what each trigger carries, `limits` every number of
it, `table` all the rest.
"""
