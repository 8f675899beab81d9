"""`interlock top`: the state of a deployment at one moment, as a live screen.

`snapshot` reads the store, and what each system adds; `screen` draws a snapshot, and cuts only what
does not fit the terminal. `cli` repeats both. The part of a system is its `TopPart`.
"""
