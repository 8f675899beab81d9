"""The coding task: claimed, worked on in a worktree of its own, verified, merged, closed.

`names` has its states, and its triggers with the sentence and the payload of each. `payloads` has
what a task is created from and what each trigger carries; `limits` has every number of it. `stages`
has what a task owes in each state; `changes` has guards and updates, and `lost` those of lost
agents; `table` has the transitions.
"""
