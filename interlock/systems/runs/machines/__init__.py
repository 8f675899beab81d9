"""Runs of codons in a workspace."""
