"""The agent: one supervised process that works on tasks.

`payloads` has what an agent is created from and what each trigger carries, `limits` every number of
it, `table` all the rest.
"""
