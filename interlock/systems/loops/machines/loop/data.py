"""What the record of a long-lived agent holds."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from interlock.system.tables import Record


class SessionEnd(TypedDict):
    """How the last session ended: by itself, or `interrupted`. See `LoopSessionEnd`."""

    outcome: str
    session_seq: int
    exit_code: NotRequired[int]
    code: NotRequired[str]
    detail: NotRequired[str]
    ran_s: NotRequired[float]
    retry_after_s: NotRequired[int]
    interrupted: NotRequired[bool]


class LoopStop(TypedDict):
    """By whom an agent was stopped, `operator` or `fatal`, and why."""

    by: str
    reason: str


class LoopData(TypedDict):
    """The data of a life of an agent: what it was started with, and what has come of that.

    `session_seq` is the number of its session, `attempt` that of the last try to launch one.
    `overdue` and `unbegun` are steps in a row that took too long, or that no worker began. All mail
    up to `acknowledged` was given, and so were the messages `ahead` of that; with the prompt that
    was built last, those up to `claimed` and in `claimed_ahead` are given. `given` was given to
    sessions that have not succeeded. `former` is the host that seems to be gone.
    """

    repo: str
    command: str
    host: str
    base: str
    tags: list[str]
    identity: str
    instructions: str
    session_timeout_s: NotRequired[int]
    grace_s: int
    max_consecutive_errors: int
    max_total_errors: int
    reset_on: str
    min_runtime_s: int
    parks: bool
    next: str
    every_s: NotRequired[int]
    initializing_s: int
    building_s: int
    spawning_s: int

    session_seq: int
    attempt: int
    consecutive_errors: int
    total_errors: int
    overdue: int
    unbegun: int
    acknowledged: str
    ahead: list[str]

    worktree: NotRequired[str]
    branch: NotRequired[str]
    prompt: NotRequired[str]
    digest: NotRequired[str]
    claimed: NotRequired[str]
    claimed_ahead: NotRequired[list[str]]
    letters: NotRequired[list[str]]
    pid: NotRequired[int]
    containment: NotRequired[str]
    given: NotRequired[list[str]]
    cooling_ms: NotRequired[int]
    former: NotRequired[str]
    last: NotRequired[SessionEnd]
    stopped: NotRequired[LoopStop]


Life = Record[LoopData]
