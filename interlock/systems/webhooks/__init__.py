"""Webhooks: endpoints outside that are notified of cards and ends."""
