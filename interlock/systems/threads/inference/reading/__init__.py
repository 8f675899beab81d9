"""Reads an English request without a language model: its wishes, its values, and what is left."""
