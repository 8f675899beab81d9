"""The codon: one execution of one step of a run."""
