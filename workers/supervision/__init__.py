"""Agents as processes under a lease: launched, supervised, and read."""
