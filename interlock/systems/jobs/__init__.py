"""Graphs of jobs: their files, how workers and reviewers run, and what people see of them."""
