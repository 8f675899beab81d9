"""Every number of a delivery, each with what it limits."""

# The waits after the first, second, ... failure, in s, as the specification Standard Webhooks has
# them. A failure after the last wait is the last.
WAITS_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
JITTER_SHARE = 0.1  # a wait is longer or shorter by up to this share of it
RETRY_AFTER_S_MAX = 86_400  # the longest wait that an endpoint may ask for

SENDING_MS = 3_600_000  # an attempt that nobody has made or reported by then has failed
DEAD_MS = 30 * 86_400_000  # a delivery that nobody replays for so long is dropped

DETAIL_LENGTH_MAX = 2_000  # characters of a reason in words
CODE_LENGTH_MAX = 100  # characters of a reason as a code
RECORD_LENGTH_MAX = 1_000  # characters of the id of the record that the message is about
MACHINE_LENGTH_MAX = 200  # characters of the name of that record's machine
PROPOSALS_MAX = 2  # questions that the record asked when the message was made
PROPOSAL_LENGTH_MAX = 1_200  # characters of the name of such a question
STATUS_MIN, STATUS_MAX = 100, 999  # of the HTTP status with which an endpoint answers
