"""Why records moved: two fixed lists of reasons, and the sentence that a row says."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, auto
from functools import cache
from string import Formatter
from typing import Any

from interlock.kernel.shortened import shortened

VALUE_LENGTH_MAX = 80
VALUES_MAX = 10


class TransitionReason(StrEnum):
    """The reasons of transitions of tasks and agents: the 13 published values, then ours.

    Ours are for ends that none of the published ones is true of: nobody asked to abort them.
    """

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
    FAILED = auto()  # the agent failed: by its exit code, its report, or because it did not start
    TIMED_OUT = auto()
    LOST = auto()  # the holder of the work was lost
    VERIFICATION_FAILED = auto()
    MERGE_FAILED = auto()

    @property
    def ends_well(self) -> bool:
        """Whether it says that all went well.

        An agent may report any reason: of work that failed, such a reason is not passed on.
        """
        return self in (
            TransitionReason.COMPLETED,
            TransitionReason.RETRY,
            TransitionReason.ORPHAN_RECOVERED,
        )

    @property
    def abort(self) -> AbortReason | None:
        """The abort that the reason implies where a report names none, or None."""
        return _ABORT_OF.get(self)


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

    @property
    def why(self) -> TransitionReason:
        """The reason of a transition that the abort caused."""
        return _WHY_OF.get(self, TransitionReason.ABORTED)

    @classmethod
    def of_exit(
        cls, exit_code: int, *, killed_by_us: AbortReason | None = None
    ) -> AbortReason | None:
        """Return why a process ended abnormally, or None where it ended well.

        `exit_code` is what the process returned, or minus the number of the signal that ended it.
        `killed_by_us` is our reason for ending it ourselves, never oom; it is the answer whatever
        the exit code.
        """
        assert killed_by_us is not cls.OOM
        if killed_by_us is not None:
            return killed_by_us
        if exit_code == 0:
            return None
        return _OF_EXIT_CODE.get(exit_code, cls.UNKNOWN)


_ABORT_OF: Mapping[TransitionReason, AbortReason] = {
    TransitionReason.COMPACTION_FAILED: AbortReason.COMPACT_FAILURE,
    TransitionReason.PROVIDER_413: AbortReason.PROVIDER_ERROR,
    TransitionReason.PROVIDER_529: AbortReason.PROVIDER_ERROR,
    TransitionReason.PERMISSION_DENIED: AbortReason.PERMISSION_DENIED,
}

_WHY_OF: Mapping[AbortReason, TransitionReason] = {
    AbortReason.TIMEOUT: TransitionReason.TIMED_OUT,
    AbortReason.OOM: TransitionReason.FAILED,
    AbortReason.PROVIDER_ERROR: TransitionReason.FAILED,
    AbortReason.BASH_ERROR: TransitionReason.FAILED,
    AbortReason.UNKNOWN: TransitionReason.FAILED,
    AbortReason.SIBLING_ABORTED: TransitionReason.SIBLING_ABORTED,
    AbortReason.PERMISSION_DENIED: TransitionReason.PERMISSION_DENIED,
    AbortReason.COMPACT_FAILURE: TransitionReason.COMPACTION_FAILED,
}

# POSIX fixes these three numbers; an exit code is minus the signal that ended the process.
_SIGINT, _SIGKILL, _SIGTERM = 2, 9, 15

# A SIGKILL that is not ours is most likely that of the operating system for want of memory.
_OF_SIGNAL: Mapping[int, AbortReason] = {
    _SIGINT: AbortReason.USER_INTERRUPT,
    _SIGTERM: AbortReason.SHUTDOWN_SIGNAL,
    _SIGKILL: AbortReason.OOM,
}
# A shell returns 128 plus the number of the signal that ended its command.
_SHELL = 128
_OF_EXIT_CODE: Mapping[int, AbortReason] = {
    124: AbortReason.TIMEOUT,
    126: AbortReason.PERMISSION_DENIED,
    **{-number: reason for number, reason in _OF_SIGNAL.items()},
    **{_SHELL + number: reason for number, reason in _OF_SIGNAL.items()},
}


@cache
def fields_named(says: str) -> tuple[str, ...]:
    """Return the fields of a payload that a row's sentence names, as in `{owner} claimed it`.

    Raises ValueError for braces that name no field.
    """
    found = list(Formatter().parse(says))
    names = tuple(name for _, name, _, _ in found if name is not None)
    if not all(name.isidentifier() for name in names) or any(s or c for _, _, s, c in found):
        raise ValueError("only the name of a field may be between braces")
    return names


def sentence(says: str, payload: Mapping[str, Any]) -> str:
    """Return a row's sentence with the values of the payload, each as a short line."""
    names = fields_named(says)
    return says.format_map({name: _short(payload.get(name, "")) for name in names})


def moved(trigger: str, source: str, target: str) -> str:
    """Return why a record moved, where its row has no sentence."""
    if not source:
        return "it was created"
    if source == target:
        return f"{trigger} was fired, and it stays {target}"
    return f"{trigger} took it from {source} to {target}"


def _short(value: Any) -> str:
    parts = map(str, value[:VALUES_MAX]) if isinstance(value, list) else (str(value),)
    # Cut first: a field may have many thousands of letters.
    text = " ".join(", ".join(shortened(part, 4 * VALUE_LENGTH_MAX) for part in parts).split())
    return shortened(text, VALUE_LENGTH_MAX)
