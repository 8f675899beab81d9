"""Every error of git, by what the caller does next; it never decides anything."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from interlock.kernel.errors import CallError, KernelError


class Refusal(StrEnum):
    """Why something was refused."""

    BARE = "bare"
    BRANCH_EXISTS = "branch_exists"
    BRANCH_MISSING = "branch_missing"
    BRANCH_NAME = "branch_name"
    CHECKOUT_BUSY = "checkout_busy"
    CONFLICTS_LEFT = "conflicts_left"
    DETACHED = "detached"
    DIRTY = "dirty"
    EMBEDDED_REPOSITORY = "embedded_repository"
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
    PATH_OUTSIDE = "path_outside"
    PUSH_REJECTED = "push_rejected"
    REMOTE_MISSING = "remote_missing"
    TARGET_MISSING = "target_missing"
    TEXT = "text"
    WRONG_BRANCH = "wrong_branch"


class GitError(KernelError):
    """Base of every error of git; its message is one sentence for a person."""


class RefusedError(GitError, CallError):
    """It cannot be done as things stand, and nothing was changed. Do what the message says."""

    def __init__(self, refusal: Refusal, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.refusal = refusal


class LockedError(GitError):
    """Another git is at work, or left its lock behind. Repeat later; the message names the lock."""

    def __init__(self, lock: Path, remedy: str) -> None:
        super().__init__(f"another git holds {lock}; {remedy}")
        self.lock = lock


class TimedOutError(GitError):
    """Git did not end in time and was ended, with all it had started. Repeat it."""

    def __init__(self, command: str, limit_s: float) -> None:
        super().__init__(f"{command} did not end within {limit_s:g} s and was ended; try again")
        self.command, self.limit_s = command, limit_s


class FailedError(GitError):
    """Git failed for a reason that only its own words explain. Read them, then repeat."""

    def __init__(self, command: str, exit_code: int, said: str) -> None:
        super().__init__(f"{command} failed with exit code {exit_code}: {said or 'no word why'}")
        self.command, self.exit_code, self.said = command, exit_code, said
