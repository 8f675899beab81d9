"""Who may do what: roles, access tokens, and the commands that make them."""
