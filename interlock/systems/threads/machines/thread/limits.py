"""Every number of a thread, each with what it limits or is by default.

What a policy allows without a person, with its confidence and budget, is in `threads/autonomy`.
"""

# How long a thread may be in a state.
KICKOFF_MS = 2_000  # a thread that its producer did not begin by then begins by itself
INFERENCE_QUEUE_MS = 6 * 3_600_000  # for a worker to begin an inference
INFERENCE_MS = 15 * 60_000  # for one inference
EXECUTION_QUEUE_MS = 6 * 3_600_000  # for a worker to begin and end an action
CLEANUP_MS = 3_600_000  # to tidy up the source
RECHECK_MS = 60_000  # after which the parts of a thread are counted again
REMIND_S = 86_400  # after which a person is asked again, unless the producer says otherwise
REMIND_S_MAX = 365 * 86_400  # the longest such time that a producer may say
EXPIRES_S_MAX = 10 * 365 * 86_400  # the longest time for an answer that a producer may say
DEADLINE_S = 300.0  # for one call of a capability that declares no other time
DEADLINE_S_MAX = 86_400  # the longest such time that a capability may declare

# How much a thread may be given.
ITEMS_MAX = 500  # of context
TEXT_LENGTH_MAX = 64_000  # characters of a text, an intent, a summary
LINE_LENGTH_MAX = 2_000  # characters of a title, name, id or label
RECEIVER_LENGTH_MAX = 500  # characters of the name of who takes it over

# How much of what was said is kept and shown.
FEEDBACK_MAX = 20  # of what people said, the newest lines are given to the model
TURNED_DOWN_MAX = 10  # calls that were turned down, the newest
WHY_LENGTH_MAX = 2_000  # characters of why a call was turned down
WHY_SHOWN_MAX = 300  # of these, characters that a card shows
OPTIONS_MAX = 20  # answers that a person may pick
