"""The coding task: claimed, worked on in a worktree of its own, verified, merged, closed.

`names` has its states and triggers. `payloads` has what a task is created from and what each
trigger carries, with the limits and defaults of every field. `stages` has what a task owes in
each state, and its time limits. `changes` has guards and updates, with the counts of claims
and retries that end a task, and `lost` those of lost agents. `table` has the transitions.
"""
