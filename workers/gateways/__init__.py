"""Gateways: one outside thing each; they never decide what happens next."""
