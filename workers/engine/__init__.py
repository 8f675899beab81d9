"""The engine: claims effects, runs their handlers, renews leases, sweeps; it knows no system."""
