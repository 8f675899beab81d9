"""A run of codons that cleans a small table of facts, and another one that lets a model tell of it."""
