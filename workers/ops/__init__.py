"""What an operator uses across systems: top, doctor, verify, events, demo, deployment."""
