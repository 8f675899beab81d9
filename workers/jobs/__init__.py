"""Graphs of jobs: their files, what is asked of workers and reviewers, what people see."""
