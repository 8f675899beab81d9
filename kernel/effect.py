"""The effects a machine may owe, and the limits of each; it never runs one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto


class Kind(StrEnum):
    """What ends an effect's entry."""

    STATE = auto()  # its outcome; it is revoked when the record leaves the state
    TRANSITION = auto()  # settling; it is owed whatever happens next
    SPAWN = auto()  # settling; it holds the sentinel of the countdown that it fills
    ADVANCE = auto()  # at most one outcome; owed by whoever empties a countdown


@dataclass(frozen=True, slots=True)
class Effect:
    """Work that is owed, by name, with its limits.

    `lease_ms` is how long a holder may be silent, `grace_ms` how long a revoked holder may take to
    stop, `attempts_max` how many claims it gets before its stage's exhaustion or quarantine.
    `exclusive` effects of a record share a place, such as a worktree, and are there one at a time.
    A `kept` one is leased from its birth by who brought the record there, and never published.
    A `local` one is about files of one machine, which its record names, and runs there.
    A `quick` one does nothing but ask and tell the store.
    """

    name: str
    lease_ms: int = 30_000
    grace_ms: int = 10_000
    attempts_max: int = 3
    exclusive: bool = False
    kept: bool = False
    local: bool = False
    quick: bool = False

    def __str__(self) -> str:
        return self.name


# A new effect needs its handler in workers/systems.py too; without it a worker refuses to start.
INFERENCE = Effect("inference")
EXECUTION = Effect("execution")
CLEANUP = Effect("cleanup", attempts_max=5)
RESOLUTION = Effect("resolution", attempts_max=20)
SPAWN = Effect("spawn", attempts_max=20, quick=True)
CASCADE = Effect("cascade", attempts_max=20, quick=True)
ASSIGNMENT = Effect("assignment", attempts_max=20)
AGENT = Effect("agent", lease_ms=60_000, grace_ms=30_000, attempts_max=1, exclusive=True, kept=True)
SUPERVISION = Effect(
    "supervision", lease_ms=60_000, grace_ms=30_000, attempts_max=1, exclusive=True, kept=True
)
VERIFICATION = Effect("verification", exclusive=True, local=True)
# A user may be at work in the target for a day: the stage's timer ends that, not the attempts.
MERGE = Effect("merge", attempts_max=400, exclusive=True, local=True)
RECOVERY = Effect("recovery", exclusive=True, local=True)
REAPING = Effect("reaping", attempts_max=20, local=True)
AFTERMATH = Effect("aftermath", attempts_max=20)
ABORT = Effect("abort", attempts_max=20)
REGISTRATION = Effect("registration", attempts_max=20, quick=True)
# It shares the job's directory and place: what it starts must not meet what is still ending.
SCHEDULING = Effect("scheduling", attempts_max=20, exclusive=True, quick=True)
VACANCY = Effect("vacancy", attempts_max=20, exclusive=True, quick=True)
WORKER = Effect("worker", attempts_max=1, exclusive=True, local=True)
REVIEWER = Effect("reviewer", attempts_max=1, exclusive=True, local=True)
APPROVAL = Effect("approval", attempts_max=20, quick=True)
TELL = Effect("tell", attempts_max=20, quick=True)
TENDING = Effect("tending", attempts_max=20, quick=True)
# An agent's worktree, prompt and session are on the machine that it lives on.
WORKTREE = Effect("worktree", attempts_max=20, exclusive=True, local=True)
PROMPT = Effect("prompt", attempts_max=20, exclusive=True, local=True)
SESSION = Effect("session", exclusive=True, local=True)
DRAIN = Effect("drain", attempts_max=20, quick=True)
RETIREMENT = Effect("retirement", attempts_max=20, exclusive=True, local=True)
MANIFEST = Effect("manifest", attempts_max=20, local=True)
# One process of its own, on the workspace's machine, holds a run and the codon in execution.
CONDUCTOR = Effect("conductor", attempts_max=1, exclusive=True, local=True)
STEP = Effect("step", attempts_max=1, exclusive=True, kept=True)
EVENTS = Effect("events", attempts_max=20, quick=True)
CLEARANCE = Effect("clearance", attempts_max=20, quick=True)
