"""Runs agents as processes under a lease: launches supervisors, and reads agents' reports."""
