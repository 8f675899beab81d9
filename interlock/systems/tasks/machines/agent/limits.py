"""Every number of an agent, each with what it limits or is by default."""

SPAWN_S = 60  # an agent that does not work so long after its creation has failed to start
PROGRESS_S = 900  # an agent that makes no progress for so long is ended
IDLE_S = 300  # an agent that gets no other task for so long is ended
LIMIT_S_MAX = 86_400  # the longest of these times that may be said

LINE_LENGTH_MAX = 2_000  # characters of a name, command or id
REASON_LENGTH_MAX = 2_000  # characters of a reason in words
DETAIL_LENGTH_MAX = 8_000  # characters of the details of an end
CODE_LENGTH_MAX = 100  # characters of a reason as a code, and of the kind of a containment
HOST_LENGTH_MAX = 255  # characters of the name of a computer
