"""A run of codons that cleans a small table of facts, and one in which a model tells of it."""
