"""Every number of a job, each with what it limits or is by default."""

# How long a job may be in a state.
RUNNING_S = 1_800  # a worker without a sign of life for so long is started again, by default
REVIEWING_S = 900  # a reviewer without a sign of life for so long is started again, by default
KICKOFF_MS = 60_000  # a draft that its producer did not activate by then is activated
RECHECK_MS = 900_000  # after which a job that waits is looked at again, should a message be lost
REMIND_S = 86_400  # after which a person is asked again, unless the job says otherwise
REMIND_S_MIN = 60  # the shortest such time that a job may say
SECONDS_MAX = 31_536_000  # a year: the longest time that a job may say

# How often a job is tried.
RECOVERIES = 3  # starts in a row after a lost or silent worker, unless the job says otherwise
RETRIES = 5  # tries that a worker may ask for, unless the job says otherwise
TRIES_MAX = 100  # the highest of these numbers that a job may say
RETRY_DELAY_S = 30  # before the first such try, unless the job says otherwise; it doubles
RETRY_DELAY_S_MAX = 3_600  # the longest first delay that a job may say
RETRY_DOUBLINGS_MAX = 7  # so often that delay doubles
RETRY_AFTER_S_MAX = 86_400  # the longest delay that a worker or reviewer may ask for
UNBEGUN_MAX = 8  # waits for a worker: with the defaults a person is asked after four hours
ITERATIONS_MAX = 1_000_000  # the highest limit of runs of its worker

# How much a job may be given.
PHASES_MAX = 50
DEPENDENCIES_MAX = 20_000
ACCEPTANCE_MAX = 100  # lines that say what the work has to meet
STEWARDS_MAX = 100
SLOTS_MAX = 10  # names of slots that it needs at one time
ID_LENGTH_MAX = 200  # characters of a job's whole id
LINE_LENGTH_MAX = 2_000  # characters of a path, name, or line of acceptance
TEXT_LENGTH_MAX = 64_000  # characters of description, objective, details
COMMAND_LENGTH_MAX = 8_000  # characters of a shell command
PROMPT_LENGTH_MAX = 16_000  # characters of a prompt for a model
COST_MICRO_MAX = 10**15  # micro-dollars of a limit, or of one call

# How much is told about it.
EVIDENCE_MAX = 200  # files in one report
EVIDENCE_KEPT_MAX = 500  # of all its evidence, the newest files are kept
EVIDENCE_SHOWN_MAX = 10  # of these, the newest that a card names
GUIDANCE_MAX = 50  # of the guidance of people and reviewers, the newest is kept
REASONS_MAX = 100  # reasons of a verdict
SUMMARY_LENGTH_MAX = 1_000  # characters of a report's summary
DETAIL_LENGTH_MAX = 8_000  # characters of a reason in words
CODE_LENGTH_MAX = 100  # characters of a reason as a code, and of the name of a state
