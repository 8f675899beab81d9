"""The errors of git, grouped by what the caller does next."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from interlock.kernel.errors import CallError, KernelError


class Refusal(StrEnum):
    """The reason of a refusal."""

    BARE = "bare"
    BRANCH_EXISTS = "branch_exists"
    BRANCH_MISSING = "branch_missing"
    BRANCH_NAME = "branch_name"
    CHECKOUT_BUSY = "checkout_busy"
    CONFLICTS_LEFT = "conflicts_left"
    DETACHED = "detached"
    DIRTY = "dirty"
    EMBEDDED_REPOSITORY = "embedded_repository"
    FILTER_MISSING = "filter_missing"
    FOLDER_FOREIGN = "folder_foreign"
    FOLDER_MISSING = "folder_missing"
    FOLDER_TAKEN = "folder_taken"
    GIT_MISSING = "git_missing"
    GIT_TOO_OLD = "git_too_old"
    IDENTITY = "identity"
    NO_COMMIT = "no_commit"
    NOT_A_REPOSITORY = "not_a_repository"
    NOT_MERGED = "not_merged"
    NOT_WRITABLE = "not_writable"
    OBJECTS_MISSING = "objects_missing"
    PATH_OUTSIDE = "path_outside"
    PUSH_REJECTED = "push_rejected"
    REF_FORMAT = "ref_format"
    REMOTE_MISSING = "remote_missing"
    SIGNING = "signing"
    SUBMODULE = "submodule"
    TARGET_MISSING = "target_missing"
    TEXT = "text"
    UNSAVED = "unsaved"
    WRONG_BRANCH = "wrong_branch"


class GitError(KernelError):
    """Base of every error of git; its message is one sentence for a person."""


class RefusedError(GitError, CallError):
    """The repository is not in a state for this, and nothing was changed. Follow the message."""

    def __init__(self, refusal: Refusal, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.refusal = refusal


class LockedError(GitError):
    """Another git runs, or left its lock behind. Repeat later; the message names the lock."""

    def __init__(self, lock: Path, remedy: str) -> None:
        super().__init__(f"another git holds {lock}; {remedy}")
        self.lock = lock


class BusyError(LockedError):
    """Another call of Interlock has the lock, and frees it by itself. Repeat later."""


class TimedOutError(GitError):
    """Git did not end in time and was killed with the processes it started. Repeat it."""

    def __init__(self, command: str, limit_s: float) -> None:
        super().__init__(f"{command} did not end within {limit_s:g} s and was ended; try again")
        self.command, self.limit_s = command, limit_s


class FailedError(GitError):
    """Git failed; only its own output explains why. Read it, then repeat."""

    def __init__(self, command: str, exit_code: int, stderr: str) -> None:
        super().__init__(
            f"{command} failed with exit code {exit_code}: {stderr or 'it gave no reason'}"
        )
        self.command, self.exit_code, self.stderr = command, exit_code, stderr


class ObstructedError(FailedError):
    """Git failed at something that only a person can remove or set up. The message says what."""

    def __init__(self, command: str, exit_code: int, stderr: str, remedy: str) -> None:
        super().__init__(command, exit_code, f"{stderr}; {remedy}")


# What git says where only a person can help, as part of a message of git or of a program that it
# calls, and what that person has to do.
OBSTACLES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(said, re.MULTILINE), remedy)
    for said, remedy in (
        ("No space left on device|[Dd]isk quota exceeded", "make room on the disk"),
        ("Read-only file system", "make the file system writable"),
        (
            (
                r"could not read (Username|Password) for|terminal prompts disabled"
                r"|Authentication failed for|Permission denied \((publickey|password)"
                r"|Host key verification failed|The requested URL returned error: (401|403)"
            ),
            "set up access that works without a question, such as a credential helper or a key",
        ),
        (
            r"insufficient permission for adding an object|: Permission denied$",
            "give the user that runs this the right to write there",
        ),
    )
)


def remedy_for(stderr: str) -> str:
    """Return what a person has to do so that git does not fail with this message again, or ''."""
    found = (remedy for said, remedy in OBSTACLES if said.search(stderr))
    return next(found, "")
