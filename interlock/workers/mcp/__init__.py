"""Interlock as a server of the Model Context Protocol: its records as tools of agents."""
