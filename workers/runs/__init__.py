"""Runs of codons: what one is planned from, and how a workspace is worked on step by step."""
