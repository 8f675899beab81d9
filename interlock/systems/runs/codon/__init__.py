"""The execution of one codon: its rig, its agent, its limits and its sentinels."""
