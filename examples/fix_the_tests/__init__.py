"""Four agents on one repository with a failing test: one repairs it, the others fail."""
