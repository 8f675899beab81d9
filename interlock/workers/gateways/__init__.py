"""Gateways to outside programs and services. They carry out calls; their callers decide."""
