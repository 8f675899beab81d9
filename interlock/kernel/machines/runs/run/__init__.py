"""The run: one pass over a plan of codons.

`payloads` has what a run is created from and what each trigger carries, with the limits and
defaults of every field. `table` has all the rest. The plan itself, with its limits and defaults, is
data to the kernel.
"""
