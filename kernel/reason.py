"""The reasons of transitions, and of abnormal ends of agents, as closed lists."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, auto


class TransitionReason(StrEnum):
    """The reasons of transitions of tasks and agents: the 13 published values."""

    COMPLETED = auto()
    ABORTED = auto()
    RETRY = auto()
    PROMPT_TOO_LONG = auto()
    MAX_OUTPUT_TOKENS = auto()
    MAX_TURNS = auto()
    PROVIDER_413 = auto()
    PROVIDER_529 = auto()
    COMPACTION_FAILED = auto()
    STOP_HOOK_BLOCKED = auto()
    PERMISSION_DENIED = auto()
    SIBLING_ABORTED = auto()
    ORPHAN_RECOVERED = auto()


class AbortReason(StrEnum):
    """The reasons of abnormal ends of agents: the 11 published values."""

    USER_INTERRUPT = auto()
    SHUTDOWN_SIGNAL = auto()
    TIMEOUT = auto()
    OOM = auto()
    PERMISSION_DENIED = auto()
    PROVIDER_ERROR = auto()
    BASH_ERROR = auto()
    SIBLING_ABORTED = auto()
    PARENT_ABORTED = auto()
    COMPACT_FAILURE = auto()
    UNKNOWN = auto()


# The abort that a reason means where no abort is given.
ABORT_OF: Mapping[TransitionReason, AbortReason] = {
    TransitionReason.COMPACTION_FAILED: AbortReason.COMPACT_FAILURE,
    TransitionReason.PROVIDER_413: AbortReason.PROVIDER_ERROR,
    TransitionReason.PROVIDER_529: AbortReason.PROVIDER_ERROR,
    TransitionReason.PERMISSION_DENIED: AbortReason.PERMISSION_DENIED,
}

# The reason that an abort means; ABORTED for those that are not listed.
WHY_OF: Mapping[AbortReason, TransitionReason] = {
    AbortReason.SIBLING_ABORTED: TransitionReason.SIBLING_ABORTED,
    AbortReason.PERMISSION_DENIED: TransitionReason.PERMISSION_DENIED,
    AbortReason.COMPACT_FAILURE: TransitionReason.COMPACTION_FAILED,
}


def why_of(abort: AbortReason) -> TransitionReason:
    """Return the reason of a transition that an abort caused."""
    return WHY_OF.get(abort, TransitionReason.ABORTED)


# POSIX fixes these three numbers; an exit code is minus the signal that ended the process.
_SIGINT, _SIGKILL, _SIGTERM = 2, 9, 15

_OF_EXIT_CODE: Mapping[int, AbortReason] = {
    124: AbortReason.TIMEOUT,
    126: AbortReason.PERMISSION_DENIED,
    137: AbortReason.OOM,
    -_SIGINT: AbortReason.USER_INTERRUPT,
    -_SIGTERM: AbortReason.SHUTDOWN_SIGNAL,
    -_SIGKILL: AbortReason.OOM,
}


def abort_reason(exit_code: int, *, killed_by_us: AbortReason | None = None) -> AbortReason | None:
    """Return why a process ended abnormally, or None where it ended well.

    `exit_code` is what the process returned, or minus the number of the signal that ended it.
    `killed_by_us` is our reason for ending it ourselves, never oom; it is the answer whatever the
    exit code.
    """
    assert killed_by_us is not AbortReason.OOM
    if killed_by_us is not None:
        return killed_by_us
    if exit_code == 0:
        return None
    return _OF_EXIT_CODE.get(exit_code, AbortReason.UNKNOWN)
