"""The resolution thread: from something that happened to what was done about it.

`names` has its states, and its triggers with the sentence and the payload of each. `payloads` has
what a thread is created from and what each trigger carries; `limits` has every number of it.
`stages` has what a thread owes in each state, and its cards. `guards` asks the autonomy policy,
`changes` has the updates; `table` has the transitions. The policy itself, with its defaults, is
`threads/autonomy`.
"""
