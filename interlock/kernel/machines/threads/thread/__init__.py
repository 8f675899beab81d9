"""The resolution thread: from something that happened to what was done about it.

`names` has its states and triggers. `payloads` has what a thread is created from and what each
trigger carries, with the limits and defaults of every field. `stages` has what a thread owes
in each state, and its time limits and cards. `guards` asks the autonomy policy, `changes` has the
updates; `table` has the transitions. The policy itself, with its defaults, is `threads/autonomy`.
"""
