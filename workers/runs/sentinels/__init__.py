"""The observers of a codon: what they are triggered by, when they are called, what became of it."""
