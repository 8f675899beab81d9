"""Webhooks: endpoints outside that are told of cards and ends."""
