"""Every number of a workspace, a run and a codon, each with what it limits.

The limits of time, money and tokens that a plan sets are data to the kernel.
"""

RECHECK_MS = 3_600_000  # after which an effect looks for what a lost message left behind
EXECUTIONS_MAX = 10_000  # executions that a continued run goes on from
LEFT_OUT_MAX = 1_000  # paths that no checkpoint can hold, which are named

MICRO_MAX = 2**53 - 1  # micro-dollars, tokens and counts: what a script can count exactly
MILLISECONDS_MAX = 2**53  # since the epoch
RETRY_AFTER_MS_MAX = 3_600_000  # the longest wait that a provider may ask for
EXIT_CODE_MAX = 255  # and below 0, of an agent that was ended by a signal
SENTINELS_MAX = 100  # of one codon
NAME_LENGTH_MAX = 200  # characters of the name of a codon, session, model or sentinel
PATH_LENGTH_MAX = 4_000  # characters
SHA_LENGTH_MAX = 100  # characters of the id of a checkpoint
HOST_LENGTH_MAX = 255  # characters of the name of a computer
CODE_LENGTH_MAX = 100  # characters of a reason as a code
DETAIL_LENGTH_MAX = 8_000  # characters of a reason in words
