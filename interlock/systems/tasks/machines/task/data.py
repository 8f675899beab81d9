"""What the record of a task holds: what its producer handed in, and what its rows have kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict


class AbortPolicyData(TypedDict):
    """How far an abort of the agent goes."""

    tool_to_sibling: bool
    sibling_to_session: bool


class SignalData(TypedDict):
    """A completion signal."""

    type: str
    value: str


class SignalResultData(SignalData):
    """What a completion signal came to."""

    passed: bool
    detail: str
    flagged: NotRequired[bool]
    confidence: NotRequired[float | None]
    seconds: NotRequired[float]


class ClaimantData(TypedDict, total=False):
    """What an agent is recognised by: its `owner` is a name, the others are ids of records."""

    owner: str
    identity: str
    agent: str


class ClaimData(TypedDict):
    """The current claim; it is the `number`th of the task."""

    owner: str
    identity: str
    number: int
    agent: NotRequired[str]
    sandbox: NotRequired[str]
    deadline_s: NotRequired[int]
    deadline_reasons: NotRequired[Sequence[str]]


class TaskFailureData(TypedDict, total=False):
    """Why a try failed, or what is known of the end of a lost agent."""

    reason: str
    code: str
    detail: str
    why: str
    abort: str
    retry_after_s: int
    paths: Sequence[str]


class FailedSignalData(SignalData):
    """A signal that did not pass, and what was found."""

    detail: str


class LastTryData(TypedDict, total=False):
    """What the next agent is told of the last try, and what a person said to that."""

    reason: str
    why: str
    paths: Sequence[str]
    signals: Sequence[FailedSignalData]
    answer: str


class BlockData(TypedDict):
    """What a task waits for: a `task`, its `subtasks`, or a `text` for a person."""

    kind: str
    on: str
    cancelled: NotRequired[int]


class ChangesData(TypedDict):
    """How many files and lines the work changes."""

    files: int
    added: int
    removed: int
    binary: int


class TaskData(TypedDict):
    """The data of a task: the fields of `NewTask`, then its counts, then what is kept.

    `claims` and `crashes` count the claims and the lost agents since the last retry, `claimed`
    all claims. `children` are the parts of a split, which the agent `split_by` reported.
    """

    title: str
    text: str
    role: str
    scope: str
    complexity: str
    model: NotRequired[str]
    owned_files: Sequence[str]
    signals: Sequence[SignalData]
    needs_approval: bool
    max_retries: int
    retry_delay_s: int
    tags: Sequence[str]
    repo: NotRequired[str]
    target: str
    push: NotRequired[str]
    agent: NotRequired[str]
    agent_name: str
    session: bool
    idle_limit_s: int
    stop_hooks: Sequence[str]
    max_lost: NotRequired[int]
    budget_micro: NotRequired[int]
    tool_failures_max: int
    abort_policy: AbortPolicyData
    parent_agent: NotRequired[str]
    stream: str
    tenant: str
    depends_on: Sequence[str]
    depends_on_done: Sequence[str]
    not_before: int
    plan: NotRequired[str]
    deadline_s: NotRequired[int]
    remind_s: int
    subtasks_s: NotRequired[int]
    stage_failures: bool

    retries: int
    crashes: int
    claims: int
    claimed: int

    host: NotRequired[str]
    claim: NotRequired[ClaimData]
    had_by: NotRequired[ClaimantData]
    kept_for: NotRequired[str]
    kept_from: NotRequired[ClaimantData]
    summary: NotRequired[str]
    branch: NotRequired[str]
    commit: NotRequired[str | None]
    worktree: NotRequired[str]
    took_s: NotRequired[float]
    failure: NotRequired[TaskFailureData]
    given_up: NotRequired[bool]
    rejections: NotRequired[Sequence[str]]
    lost: NotRequired[TaskFailureData]
    recovered: NotRequired[str]
    verified: NotRequired[bool]
    checked: NotRequired[Sequence[SignalResultData]]
    changes: NotRequired[ChangesData]
    asks: NotRequired[str]
    approved: NotRequired[bool]
    merging: NotRequired[bool]
    merged: NotRequired[str | None]
    rewritten: NotRequired[bool]
    blocked_on: NotRequired[BlockData]
    children: NotRequired[Sequence[Mapping[str, Any]]]
    split_by: NotRequired[str | None]
    cancel_children: NotRequired[Sequence[str]]
    tally: NotRequired[Mapping[str, int]]
    last_try: NotRequired[LastTryData]
    reason: NotRequired[str]
