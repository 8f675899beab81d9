"""What the record of a thread, or of a canary, holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypeAlias, TypedDict, cast

from interlock import Ask
from interlock.system.tables import RecordData


class IncitingData(TypedDict):
    """The event that the thread is about."""

    source: str
    title: str
    text: str
    at: NotRequired[str]
    fields: Mapping[str, Any]


class ProposalData(TypedDict):
    """What was proposed for one phase: by the model, by the producer, or by a person.

    `declared` is what its capability declares. Of a `cleared` one nothing runs.
    """

    id: str
    payload: Mapping[str, Any]
    confidence: float
    declared: NotRequired[Mapping[str, Any] | None]
    by: NotRequired[str]
    cleared: NotRequired[bool]


class FeedbackLine(TypedDict):
    """What a person said of a phase: its kind is provided, redirected or edited."""

    phase: str
    kind: str
    text: str
    values: Mapping[str, Any]


class TurnedDownCall(TypedDict):
    """A call that failed, or in whose place a person wanted something else."""

    capability: str | None
    parameters: Mapping[str, Any]
    why: str


class ThreadFailureData(TypedDict):
    """Why the last phase came to nothing, and what a person may pick instead of words."""

    code: str
    detail: str
    options: NotRequired[Sequence[Mapping[str, str]]]


class ThreadData(TypedDict):
    """The data of a thread. `target` is the phase that is inferred next, or was last."""

    inciting: IncitingData
    items: Sequence[Mapping[str, Any]]
    policy: Mapping[str, Any]
    given: NotRequired[Mapping[str, Any]]
    tags: Sequence[str]
    hold: bool
    expires_s: NotRequired[int | None]
    remind_s: int
    target: str
    proposals: Mapping[str, ProposalData]
    proposed: int
    prefetched: NotRequired[Mapping[str, Mapping[str, Any]]]
    feedback: Sequence[FeedbackLine]
    turned_down: NotRequired[Sequence[TurnedDownCall]]
    failure: NotRequired[ThreadFailureData]
    result: NotRequired[Any]
    run: NotRequired[str]
    children: NotRequired[Sequence[Mapping[str, Any]]]
    relationship: NotRequired[str]
    tally: NotRequired[Mapping[str, int]]
    reason: NotRequired[str]
    handed_off: NotRequired[Mapping[str, Any]]
    cleaned: NotRequired[Mapping[str, Any]]


ThreadAsk: TypeAlias = Ask[ThreadData]


def thread_data(data: RecordData) -> ThreadData:
    """Return the data of a record that is known to be a thread, with their type."""
    return cast("ThreadData", data)


def without(data: ThreadData, *names: str) -> ThreadData:
    """Return a copy of the data without some of the fields that a thread may lack."""
    return thread_data({name: value for name, value in data.items() if name not in names})
