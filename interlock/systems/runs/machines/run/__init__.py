"""The run: one pass over a plan of codons.

`payloads` has what a run is created from and what each trigger carries, `table` all the rest, and
`runs/limits` every number. The plan itself, with its limits and defaults, is data to the kernel.
"""
