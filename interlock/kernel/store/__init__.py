"""The store: the only code that knows Redis. Every change goes through one script."""
