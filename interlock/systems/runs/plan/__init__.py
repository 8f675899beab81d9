"""Plans of runs: their models and their files."""
