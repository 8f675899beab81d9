"""Deliveries to webhooks."""
