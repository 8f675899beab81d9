"""The codon: one execution of one step of a run.

`names` has its states and triggers. `payloads` has what a codon is created from and what each
trigger carries, with the limits and defaults of every field. `changes` has guards and updates, and
what a codon costs. `table` has the states and transitions. The values that all payloads of runs
share, with their limits, are in `runs/values`; the published events are in `runs/events`.
"""
