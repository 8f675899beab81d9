"""Every number of an identity, each with what it limits. Those of trust are in `tasks/trust`."""

UNUSED_DAYS = 90  # an identity that does not work for so long loses a level of trust
LINE_LENGTH_MAX = 2_000  # characters of a name, role, command, task or reason
