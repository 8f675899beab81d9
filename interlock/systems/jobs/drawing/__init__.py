"""Drawings of a graph of jobs."""
