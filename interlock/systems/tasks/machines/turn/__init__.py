"""The turn: what one agent does about one claim of a task, from claim to clean-up.

It is one page: all of it is in `table`, but for its numbers, which are in `limits`.
"""
