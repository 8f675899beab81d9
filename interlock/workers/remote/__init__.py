"""The client over HTTP, and the problems that the API answers with."""
