"""The codon: one execution of one step of a run.

`names` has its states, and its triggers with the sentence and the payload of each. `payloads` has
what a codon is created from and what each trigger carries. `changes` has guards and updates, and
what a codon costs. `table` has the states and transitions. The values that all payloads of runs
share are in `runs/values`, every number in `runs/limits`; the published events in `runs/events`.
"""
