"""The reader of files that people write, of agents' lines and of replies.

A file is read into nodes, which have their places, and a node into a model. Each fault of pydantic
is refused at the place of its value, with what to write instead.
"""
