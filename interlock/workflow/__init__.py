"""What people write workflows of their own with: data, steps, questions, and what a step may do."""
