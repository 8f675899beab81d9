"""The run: one pass over a plan of codons."""
