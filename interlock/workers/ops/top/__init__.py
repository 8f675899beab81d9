"""`interlock top`: the state of a deployment at one moment, as a live screen.

`snapshot` reads the store, up to the limits in `tasks/overview` and `tasks/starved`. `screen` draws
a snapshot, and `claims` its table; they cut only what does not fit the terminal. `cli` repeats all.
"""
