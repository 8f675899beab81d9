"""A delivery: one message to one endpoint, sent until the endpoint has taken it."""
