"""What runs: gateways, effects, sweeps and their doors. Workers never decide; the kernel does."""
