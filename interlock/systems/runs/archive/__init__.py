"""Validation, repair, export and import of what runs have left in a workspace."""
