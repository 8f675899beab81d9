"""The bodies of requests and answers, as OpenAPI describes them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from interlock.kernel.decision import Explanation
from interlock.kernel.record import PRIORITY_DEFAULT, PRIORITY_LAST, Record
from interlock.kernel.shown_stage import shown_stage
from interlock.kernel.store import codec
from interlock.kernel.store.listings import ListedRecord
from interlock.kernel.store.people import AccessToken
from interlock.kernel.table import Terminal
from interlock.workers.access.roles import Role
from interlock.workers.access.tokens import LIFETIME_DAYS_MAX
from interlock.workers.client import Client
from interlock.workers.engine.agent_output import AgentOutput
from interlock.workers.engine.bulk import BulkVerb
from interlock.workers.engine.card import Card, asks_person
from interlock.workers.engine.printed_output import OutputState
from interlock.workers.engine.record_diff import DiffState, RecordDiff

ITEMS_MAX = 500
BODY_BYTES_MAX = 1_048_576
Fields = dict[str, Any]
Text = Annotated[str, Field(max_length=2_000)]
Ms = Annotated[int, Field(strict=True, ge=0, le=2**53)] | None
EXAMPLE: Fields = {"inciting": {"source": "shop", "title": "Call the dentist"}}


class Body(BaseModel):
    """Base of the bodies of requests. Unknown fields are refused, and what no record can hold."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, value: Any) -> Any:
        # Before its parts are stored one by one: a lone surrogate, or too many levels.
        if isinstance(value, dict):
            codec.encode(value, "the body", BODY_BYTES_MAX)
        return value


class NewRecord(Body):
    """A record to create."""

    machine: Annotated[str, Field(examples=["thread"])]
    payload: Annotated[Fields, Field(examples=[EXAMPLE])]
    priority: Annotated[
        int, Field(strict=True, ge=0, le=PRIORITY_LAST, description="0 is first.")
    ] = PRIORITY_DEFAULT


class NamedRecord(NewRecord):
    """A record to create, with its id."""

    id: str


class NewRecords(Body):
    """Records to create."""

    records: Annotated[list[NamedRecord], Field(max_length=ITEMS_MAX)]


class Firing(Body):
    """A trigger to fire, with its payload. A field `by` of it is always the caller."""

    trigger: str
    payload: Fields = {}
    reason: Text = ""
    entered: Annotated[
        int | None,
        Field(description="That of the record that you saw: refused if it has left its state."),
    ] = None


class DecisionBody(Body):
    """An answer to a card. `proposal` is that of the card, as it names it."""

    choice: str
    answer: Fields = {}
    proposal: str


class CardClaimBody(Body):
    """Who is on a card: the caller, or the `holder` to whom it is handed over."""

    proposal: str
    holder: str = ""


class CardReleaseBody(Body):
    """The card that nobody is on any more."""

    proposal: str


class Why(Body):
    """The reason that a person or a program gives; the log keeps it."""

    reason: Text = ""


class Bulk(Body):
    """A verb for the records of one page of a list. With `dry_run` nothing is changed."""

    verb: BulkVerb
    machine: str | None = None
    state: str | None = None
    effect: str = ""
    parent: str = ""
    id: str = ""
    text: str = ""
    created_from_ms: Ms = None
    created_to_ms: Ms = None
    since_from_ms: Ms = None
    since_to_ms: Ms = None
    limit: Annotated[int, Field(strict=True, ge=1, le=ITEMS_MAX)] = 100
    cursor: str = ""
    reason: Text = ""
    dry_run: Annotated[bool, Field(strict=True)] = False


class NewToken(Body):
    """An access token to make. No machines means all; it expires after so many days, 0: never."""

    holder: Annotated[str, Field(examples=["shop"])]
    roles: Annotated[list[Role], Field(min_length=1)]
    machines: list[str] = []
    days: Annotated[int, Field(strict=True, ge=0, le=LIFETIME_DAYS_MAX)] = 90


class MadeToken(BaseModel):
    """A new access token: its text, which nobody can read again, and what is stored of it."""

    token: str
    about: AccessToken


class Me(BaseModel):
    """Who calls. A name is proved by a token, or else as the caller claims it."""

    name: str
    proved: bool
    roles: list[Role]
    machines: list[str]
    allowed: list[str]


class RecordBody(BaseModel):
    """A record as it is now. Times are ms since 1970 by the store.

    `asks_person`: it has a card. `outlook` says what follows by itself in its state, or what its
    end has left undone, or ''.
    """

    id: str
    machine: str
    state: str
    version: int
    entered: int
    schema_version: int
    title: str
    data: Fields
    created_ms: int
    since_ms: int
    priority: int
    paused: bool
    counted: str
    proposal: str
    ended: bool
    asks_person: bool
    outlook: str
    effects: list[Fields]
    timers: list[Fields]
    counters: dict[str, int]


class CreatedBody(BaseModel):
    """The answer for a new record. `replayed`: the same call was accepted before."""

    id: str
    replayed: bool


class Item(BaseModel):
    """What was done to one record: `answer` says it, or `problem` why it was refused.

    `why_not` says why the record stays as it is; '' if it changes. With `dry_run` nothing is done:
    `answer` is the state of the record, and `why_not` says why the verb would leave it as it is.
    """

    id: str
    answer: str = ""
    why_not: str = ""
    problem: Fields | None = None


class Items(BaseModel):
    """An answer for each record; `next` is the cursor of the page after them, '' at the end."""

    items: list[Item]
    next: str = ""


class RecordList(BaseModel):
    """One page of a list; `next` is the cursor of the page after it, '' at the end."""

    records: list[ListedRecord]
    next: str


class CardList(BaseModel):
    """One page of the open cards; `next` is the cursor of the page after it, '' at the end."""

    cards: list[Card]
    next: str


class RejectedList(BaseModel):
    """One page of the rejected messages; `next` is the cursor of the page after it, or ''."""

    messages: list[Fields]
    next: str


class Lines(BaseModel):
    """Lines of a record's log, oldest first; `next` is the position to read on after, or ''."""

    lines: list[Fields]
    next: str


class Explained(BaseModel):
    """What a trigger would do now: the state that it leads to, or '' and why it is refused.

    `by` is who may fire it in this state; it is empty where one trigger alone is explained.
    """

    trigger: str
    state: str
    target: str
    sentence: str
    by: list[str] = []


def record_body(client: Client, record: Record) -> RecordBody:
    """Return a record as an answer has it. Nobody gets the tokens of its leases."""
    machine = client.dispatch.lifecycle.machine(record.machine)
    return RecordBody(
        id=record.id,
        machine=record.machine,
        state=record.state,
        version=record.version,
        entered=record.entered,
        schema_version=record.schema,
        title=record.title,
        data=dict(record.data),
        created_ms=record.created_ms,
        since_ms=record.since_ms,
        priority=record.priority,
        paused=record.paused,
        counted=record.counted,
        proposal=record.proposal,
        ended=isinstance(shown_stage(machine, record.state), Terminal),
        asks_person=asks_person(machine, record),
        outlook=client.outlook(record),
        effects=[asdict(replace(entry, token="")) for entry in record.entries],
        timers=[asdict(timer) for timer in record.timers],
        counters=dict(record.counters),
    )


def explained(found: Explanation) -> Explained:
    """Return an explanation as an answer has it."""
    return Explained(**asdict(found))


class OutputBody(BaseModel):
    """The newest part of what the agent of a record has printed. Times are ms by the store.

    `state` says what is known: `not_started`, `asked` (its computer has not answered yet),
    `unanswered` (it does not answer), `not_kept` (it has no such output) or `known`. `detail` is
    the same as a sentence, '' where there is nothing to say. `run` is the number of the session or
    claim, 0 before the first. `output` and `errors` are the last 32 KiB of each; `begin`, `end` and
    `errors_end` count all bytes that were printed until their beginnings and ends.
    `answered_ms` is when its computer `host` published this, `printed_ms` when the agent printed
    last; None if that is not known.
    """

    id: str
    state: OutputState
    detail: str
    host: str
    run: int
    now_ms: int | None
    answered_ms: int | None
    printed_ms: int | None
    output: str
    begin: int
    end: int
    errors: str
    errors_end: int


def output_body(record_id: str, found: AgentOutput, after: int = 0) -> OutputBody:
    """Return the output of an agent as an answer has it: what was printed after a position."""
    return OutputBody(id=record_id, **asdict(found.printed(after)))


class FileDiffBody(BaseModel):
    """One file that differs: how, its unified diff, and which part of that is missing and why."""

    path: str
    kind: str
    text: str
    missing: str


class DiffBody(BaseModel):
    """The difference of a record. Times are ms by the store.

    `state` says what is known: `asked` (its computer has not answered yet), `unanswered` (it does
    not answer), `none` (there is nothing to compare) or `known`. `detail` is the same as a
    sentence, '' where there is nothing to say. `host` is the computer that compares, `compared_ms`
    when it answered last, None if it has not. `unnamed` is how many more files differ.
    """

    id: str
    state: DiffState
    detail: str
    host: str
    now_ms: int
    compared_ms: int | None
    files: list[FileDiffBody]
    unnamed: int


def diff_body(record_id: str, found: RecordDiff) -> DiffBody:
    """Return the difference of a record as an answer has it."""
    return DiffBody.model_validate({"id": record_id, **asdict(found)})


class PositionBody(BaseModel):
    """A position in the stream of all events."""

    position: str
