"""How a command answers: JSON for programs, tables for people."""
