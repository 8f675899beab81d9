"""The track record of an agent's durable identity."""
