"""Sentinels, which observe a codon: their triggers, their calls and their states."""
