"""Plans of codons: their files and what these mean."""
