"""How a model infers what a thread's person wants, what belongs to it and what to do."""
