"""Everything that executes one codon."""
