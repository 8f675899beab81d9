"""The agent: one supervised process that works on tasks.

`payloads` has what an agent is created from and what each trigger carries, with the limits and
defaults of every field, its time limits included. `table` has all the rest.
"""
