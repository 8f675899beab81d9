"""The engine: claims effects, runs their handlers, renews leases and sweeps, for any system."""
