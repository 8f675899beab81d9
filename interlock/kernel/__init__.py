"""The kernel of Interlock: it decides and remembers; it never runs anything."""

# The folder of a checkout has a link of this name, and an editable install puts that folder on the
# path. Loaded by both names, each class would exist twice.
if __name__ != "interlock.kernel":
    raise ImportError(f"{__name__} is no package of its own: import interlock.kernel")
