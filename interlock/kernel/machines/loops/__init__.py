"""Long-lived agents."""
