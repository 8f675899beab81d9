"""The track record of an agent's durable identity, and how far it is trusted.

It is one page: all of it is in `table`, but for its numbers, which are in `limits`. The successes
that each level of trust asks for, and the level that each trigger of a task needs, are in
`tasks/trust`.
"""
