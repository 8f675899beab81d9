"""Every number of a task, each with what it limits or is by default.

How long a task may take by its size is in `tasks/deadline`; the successes that each level of trust
takes are in `tasks/trust`; an agent, a turn and an identity have numbers of their own.
"""

# How long a task may be in a state.
DEADLINE_S = 1_800  # for the work, where neither the task nor its claim says how long
START_MS = 900_000  # a claim whose agent has not begun to work by then is released
VERIFICATION_MS = 3_600_000  # for the verification
MERGE_MS = 86_400_000  # for the merge, which may wait for a user of the target's checkout
RECOVERY_MS = 900_000  # to save the work of a lost agent
RECHECK_MS = 60_000  # after which a task that waits is offered or checked again
REMIND_S = 86_400  # after which a person is asked again, unless the task says otherwise
REMIND_S_MIN = 60  # the shortest such time that a task may say
WAIT_S_MAX = 31_536_000  # a year: the longest time for a person or for subtasks that it may say
WORK_S_MAX = 86_400  # the longest deadline, idle time or wait for a provider that may be said
IDLE_S = 300  # a session waits so long for its next task, unless the task says otherwise

# How often a task is tried.
RETRIES = 3  # tries after the first one, unless the task says otherwise
RETRIES_MAX = 100  # the highest number of tries or of lost agents that a task may say
RETRY_DELAY_S = 30  # before the first of them, unless the task says otherwise; it doubles
BACKOFF_S_MAX = 300  # the longest delay before a try, unless a provider asks for a longer one
CLAIMS_SINCE_RETRY_MAX = 20  # the release of so many claims since the last retry fails the task
LOST_FOLLOWED = 2  # so many lost agents are followed by another, unless the task says otherwise
TOOL_FAILURES = 5  # so many failed tool calls in a row end a try, unless the task says otherwise
TOOL_FAILURES_MAX = 1_000  # the highest such number that a task may say
BUDGET_MICRO_MAX = 10**15  # micro-dollars for one try
SPENT_MICRO_MAX = 2**53  # for all its tries: no larger number is counted

# How much a task may be given.
SUBTASKS_MAX = 1_000  # parts of one split, and subtasks that its agent no longer wants
FILES_MAX = 1_000  # files that a task owns
SIGNALS_MAX = 50  # completion signals
SIGNAL_LENGTH_MAX = 4_000  # characters of one
HOOKS_MAX = 20  # commands that may refuse a completion
DEPENDENCIES_MAX = 100  # tasks that it waits for until they are merged; the same until done
LINE_LENGTH_MAX = 2_000  # characters of a title, path, command or name
TEXT_LENGTH_MAX = 64_000  # characters of the text

# How much is told about it.
SUMMARY_LENGTH_MAX = 8_000  # characters of the summary of its work
REASON_LENGTH_MAX = 2_000  # characters of a reason in words
DETAIL_LENGTH_MAX = 8_000  # characters of the details of a failure
CODE_LENGTH_MAX = 100  # characters of a reason as a code
ASKS_LENGTH_MAX = 500  # characters of why a person must agree to the work
PATHS_MAX = 200  # files that are at fault
RESULTS_MAX = 200  # results of completion signals
DEADLINE_REASONS_MAX = 20  # lines that say how a deadline was counted
UNFINISHED_MAX = 100  # subtasks that have not ended well
REJECTIONS_MAX = 5  # of the rejections by a person, so many are given to the next agent
SIGNALS_TOLD_MAX = 3  # of the signals that did not pass, so many outputs are given to it
