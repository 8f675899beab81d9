"""Every number of a long-lived agent, each with what it limits or is by default."""

# How long a step or a session may take.
INITIALIZING_S = 600  # to make the worktree, unless the agent says otherwise
BUILDING_S = 300  # to write a prompt, unless the agent says otherwise
SPAWNING_S = 120  # to launch a session, unless the agent says otherwise
SESSION_END_S = 30  # a session has to end after it was interrupted, unless the agent says otherwise
SESSION_END_S_MAX = 86_400  # the longest such time that an agent may say
SECONDS_MAX = 31_536_000  # a year: the longest time of any other kind that an agent may say
RECHECK_MS = 3_600_000  # after which an effect looks again for mail, should a message be lost

# How many errors end an agent, and how long it cools down after one.
CONSECUTIVE_ERRORS = 5  # so many errors in a row end it, unless the agent says otherwise
TOTAL_ERRORS = 20  # so many errors altogether end it, unless the agent says otherwise
ERRORS_MAX = 1_000_000  # the highest such number that an agent may say
MIN_RUNTIME_S = 60  # with `reset_on: min_runtime` a session that ran so long clears the errors
BACKOFF_MS_FIRST = 2_000  # the wait after the first error; it doubles with each one in a row
BACKOFF_MS_MAX = 60_000  # the longest such wait
OVERDUE_MAX = 3  # a step that took too long so many times in a row ends the agent
UNBEGUN_MAX = 2  # after so many steps in a row that no worker began, the host counts as gone

# How much it may be given.
PROMPT_LENGTH_MAX = 128_000  # characters of a whole prompt
TEXT_LENGTH_MAX = 32_000  # characters of the identity, and of the instructions
MAIL_LENGTH_MAX = 16_000  # characters of the text of one mail
LETTERS_MAX = 500  # mails that one prompt gives
GIVEN_MAX = 400  # letters of sessions that did not succeed are kept, to be shown again
LINE_LENGTH_MAX = 4_000  # characters of a command or path
WORD_LENGTH_MAX = 200  # characters of the sender or the thread of a mail
DETAIL_LENGTH_MAX = 8_000  # characters of a reason in words
CODE_LENGTH_MAX = 100  # characters of a reason as a code, and of the kind of a containment
HOST_LENGTH_MAX = 255  # characters of the name of a computer or a base branch
