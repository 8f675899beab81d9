"""How commands answer: JSON for programs, tables and sentences for people."""
