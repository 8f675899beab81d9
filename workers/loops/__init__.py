"""Long-lived agents: where each lives, what its sessions are told, who keeps them."""
