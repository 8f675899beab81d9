"""The turn: what one agent does about one claim of a task, from claim to clean-up.

It is one page: all of it, with its limits and the distances at which it is looked at, is in
`table`.
"""
