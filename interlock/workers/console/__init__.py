"""The console: pages on which people see work, answer cards and operate, in the API's process."""
