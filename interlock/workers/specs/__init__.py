"""Readers of files that people write; each problem is reported with its line."""
