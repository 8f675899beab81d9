"""Every number of a graph, each with what it limits or is by default."""

RECHECK_MS = 3_600_000  # after which an effect looks whether all jobs have ended
REMIND_S = 86_400  # after which a person is asked again, unless the graph says otherwise
REMIND_S_MIN = 60  # the shortest such time that a graph may say
SECONDS_MAX = 31_536_000  # a year: the longest time that a graph may say
COST_MICRO_MAX = 10**15  # the highest limit of money, in micro-dollars
ITERATIONS_MAX = 10**9  # the highest limit of runs of workers
SLOTS_MAX = 1_000_000  # the highest number of jobs at once; 0 sets no limit
STEWARDS_MAX = 100
DESCRIPTION_LENGTH_MAX = 64_000  # characters
DETAIL_LENGTH_MAX = 8_000  # characters of a reason in words
NAME_LENGTH_MAX = 200  # characters of the name of who decides
