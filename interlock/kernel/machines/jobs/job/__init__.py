"""A job, a step of a graph: worked on, reviewed, approved.

`names` has its states and triggers. `payloads` has what a job is created from and what each
trigger carries, with the limits and defaults of every field, its time limits included. `stages`
has what a job owes in each state, and its timers and cards. `changes` has guards and updates, with
the counts of tries and the backoff between them. `table` has the transitions.
"""
