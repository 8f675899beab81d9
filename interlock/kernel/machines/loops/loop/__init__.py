"""The long-lived agent: sessions one after the other, interrupts, cool-downs.

`names` has its states and triggers. `payloads` has what an agent is created from and what each
trigger and each mail carries, with the limits and defaults of every field, its time limits
included. `changes` has guards and updates, with the backoff and the counts of errors and of steps
that are overdue. `table` has the states and transitions.
"""
