"""A job, a step of a graph: worked on, reviewed, approved.

`names` has its states, and its triggers with the sentence and the payload of each. `payloads` has
what a job is created from and what each trigger carries; `limits` has every number of it. `stages`
has what a job owes in each state, and its timers and cards; `changes` has guards and updates;
`table` has the transitions.
"""
