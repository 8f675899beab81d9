"""What a thread is born from and what each of its triggers carries; shapes only, no decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from interlock.kernel.machines.threads.autonomy import parse
from interlock.kernel.record import CHILDREN_MAX

Text = Annotated[str, Field(max_length=64_000)]
Line = Annotated[str, Field(max_length=2_000)]
Confidence = Annotated[float, Field(ge=0, le=1)]
TargetName = Literal["intent", "context", "action"]
Kind = Literal["standard", "improvised", "suggestion", "clarification"]


class Shape(BaseModel):
    """Strict about names: an unknown field is refused, never dropped."""

    model_config = ConfigDict(extra="forbid")


class Nothing(Shape):
    """A trigger that carries nothing."""


class Inciting(Shape):
    """The event that a thread is about. `fields` are the producer's own."""

    source: Line = "producer"
    title: Line = ""
    text: Text = ""
    at: Line | None = None
    fields: dict[str, Any] = {}


class Item(Shape):
    """Something known that may belong to the matter. Its id is stable in its source."""

    id: Line
    source: Line = ""
    type: Line = ""
    label: Line = ""
    payload: dict[str, Any] = {}


class Declared(Shape):
    """What a capability declares of itself; the lower bound of every claim about its risk."""

    idempotent: bool = False
    irreversibility: Line = "high"
    regret_potential: Line = "high"
    risk_amplifier: bool = True
    requires_post_review: bool = False
    deadline_s: Annotated[float, Field(gt=0, le=86_400)] = 300.0


class Action(Shape):
    """One proposed action."""

    kind: Kind = "standard"
    capability: Line | None = None
    parameters: dict[str, Any] = {}
    summary: Text = ""
    blocked_on: Text | None = None
    irreversibility: Line = "high"
    regret_potential: Line = "high"
    risk_amplifier: bool = True


def _sound(policy: dict[str, Any] | str | None) -> dict[str, Any] | str | None:
    parse(policy)
    return policy


PolicyWords = Annotated[dict[str, Any] | str | None, AfterValidator(_sound)]


class Given(Shape):
    """Proposals that the producer brings along: no model is asked for those."""

    intent: Line | None = None
    item_ids: list[Line] | None = None
    action: Action | None = None


class Part(Shape):
    """One part of a matter that is resolved by itself."""

    title: Line = ""
    text: Text = ""
    fields: dict[str, Any] = {}
    items: list[Item] = []
    policy: PolicyWords = None


class Child(Part):
    """A part as a person or producer splits it off, perhaps with proposals of their own."""

    given: Given | None = None


Relationship = Literal["decompose", "group", "singular"]


class Birth(Shape):
    """What a producer hands in. `hold` leaves it proposed until a person begins it."""

    inciting: Inciting
    items: Annotated[list[Item], Field(max_length=500)] = []
    policy: PolicyWords = None
    given: Given | None = None
    children: Annotated[list[Part], Field(max_length=CHILDREN_MAX)] = []
    relationship: Relationship = "decompose"
    hold: bool = False
    expires_s: Annotated[int, Field(gt=0, le=10 * 365 * 86_400)] | None = None
    remind_s: Annotated[int, Field(gt=0, le=365 * 86_400)] = 86_400


class Proposal(Shape):
    """What an inference proposes for one target."""

    payload: dict[str, Any]
    confidence: Confidence


class ProposedIntent(BaseModel):
    """What guards and cards need of a proposed intent."""

    intent: Annotated[str, Field(min_length=1, max_length=64_000)]


class ProposedContext(BaseModel):
    """What guards and cards need of a proposed context."""

    item_ids: list[Line]


class ProposedAction(BaseModel):
    """What guards and cards need of a proposed action."""

    kind: Kind
    capability: Line | None = None
    parameters: dict[str, Any] = {}


PROPOSED: Mapping[str, type[BaseModel]] = {
    "intent": ProposedIntent,
    "context": ProposedContext,
    "action": ProposedAction,
}


class InferenceStarted(Shape):
    """A worker took the thread off the model's queue."""

    model: Line = ""
    attempt: int = 1
    tier: Line = ""


class InferenceDone(Shape):
    """A proposal. `prefetched` are the others of a combined call; `declared` the capability's."""

    proposal: Proposal
    prefetched: dict[TargetName, Proposal] = {}
    declared: Declared | None = None
    model: Line = ""
    origin: Literal["model", "given", "prefetched"] = "model"
    prompt: int = 0


class Failure(Shape):
    """Why something did not succeed: a code for machines, a sentence for people."""

    code: Line = "unknown"
    detail: Text = ""
    exit_code: int | None = None
    run: Line = ""


class Over(Shape):
    """A call that the tree's cap does not allow."""

    estimate_micro: int = 0
    code: Line = "budget_exceeded"
    detail: Text = ""


class Edited(Shape):
    """What a person changed. `clear` says: none of it, and nothing older either."""

    intent: Line | None = None
    item_ids: list[Line] | None = None
    capability: Line | None = None
    parameters: dict[str, Any] | None = None
    declared: Declared | None = None
    clear: bool = False

    @model_validator(mode="after")
    def _says_something(self) -> Edited:
        if not self.model_dump(exclude_defaults=True):
            raise ValueError("say what to change: intent, item_ids, capability, parameters, clear")
        return self


class Redirected(Shape):
    """Start again from a phase, with a person's words."""

    feedback: Text = ""
    target: TargetName | None = None


class Provided(Shape):
    """An answer to a clarification; a whole action where the person knows what to do."""

    text: Text = ""
    values: dict[str, Any] = {}
    capability: Line | None = None
    parameters: dict[str, Any] = {}
    declared: Declared | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Provided:
        if not (self.text.strip() or self.values or self.capability):
            raise ValueError("say something: text, values, or a capability with its parameters")
        return self


class Reason(Shape):
    """Why a person ends, rejects or accepts."""

    reason: Text = ""


class HandedOff(Shape):
    """Who goes on with it, and where it is found there. Nothing of ours runs afterwards."""

    to: Annotated[str, Field(min_length=1, max_length=500)]
    kind: Literal["person", "system"]
    reference: Annotated[str, Field(min_length=1, max_length=2_000)]


class Executed(Shape):
    """What a capability answered; `run` names the effect whose notes tell its steps."""

    result: Any = None
    run: Line = ""
    truncated: bool = False


class Decomposed(Shape):
    """The parts that a matter falls into."""

    children: Annotated[list[Child], Field(min_length=1, max_length=CHILDREN_MAX)]
    relationship: Relationship = "decompose"
    run: Line = ""


class Cleaned(Shape):
    """How the source of a matter was tidied up."""

    detail: Text = ""
    already_gone: bool = False


class Tally(Shape):
    """How many children ended in which state."""

    tally: dict[str, int]
