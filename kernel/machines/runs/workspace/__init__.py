"""The workspace: the folder that runs work on, one after another."""
