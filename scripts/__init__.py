"""What keeps this repository in step with itself, and is not installed."""
