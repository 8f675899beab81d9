"""Every number of a turn, each with what it limits."""

# The times after which an effect checks whether a turn was abandoned. The task has its limits.
IDLE_RECHECK_MS = 60_000  # before its task is claimed
SET_UP_RECHECK_MS = 900_000  # while its agent is started, and while it is cleaned up
WORK_RECHECK_MS = 3_600_000  # while its agent is at work

LINE_LENGTH_MAX = 2_000  # characters of a path, id or name, and of a reason in words
CODE_LENGTH_MAX = 100  # characters of a reason as a code
