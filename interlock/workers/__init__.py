"""What runs: gateways, effects, sweeps and their doors. Workers never decide; the kernel does."""

# The folder of a checkout has a link of this name, and an editable install puts that folder on the
# path. Loaded by both names, each class would exist twice.
if __name__ != "interlock.workers":
    raise ImportError(f"{__name__} is no package of its own: import interlock.workers")
