"""A delivery: one message to one endpoint, sent until the endpoint has taken it.

`names` has its states, and its triggers with the sentence and the payload of each; `limits` has
every number of it.
"""
