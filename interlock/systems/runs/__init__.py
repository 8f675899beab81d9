"""Runs of codons: each executes the steps of a plan over a workspace, one after the other."""
