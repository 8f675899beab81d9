"""The payloads of a thread: for its creation, and for each of its triggers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError, model_validator
from pydantic.json_schema import SkipJsonSchema

from interlock import CardAnswer, Children, Shape, Tags
from interlock.system.tables import Word
from interlock.systems.threads.machines.autonomy import parse
from interlock.systems.threads.machines.thread import limits

Text = Annotated[str, Field(max_length=limits.TEXT_LENGTH_MAX)]
Line = Annotated[str, Field(max_length=limits.LINE_LENGTH_MAX)]
Name = Annotated[str, Field(min_length=1, max_length=limits.LINE_LENGTH_MAX)]
Confidence = Annotated[float, Field(ge=0, le=1)]
TargetName = Literal["intent", "context", "action"]
ActionKindName = Literal["standard", "improvised", "suggestion", "clarification"]


class NoPayload(CardAnswer):
    """A trigger that carries nothing."""


# The field that names the computer with the request. A queue is called by that name.
REQUEST_HOST = "request_host"
_HOST = TypeAdapter[str | None](Word | None)


def _checked_host(fields: dict[str, Any]) -> dict[str, Any]:
    try:
        _HOST.validate_python(fields.get(REQUEST_HOST), strict=True)
    except ValidationError:
        named = "a computer is named by at most 64 letters, digits, '.', '_', '~' and '-'"
        raise ValueError(f"{REQUEST_HOST}: {named}") from None
    return fields


EventFields = Annotated[dict[str, Any], AfterValidator(_checked_host)]


class IncitingEvent(Shape):
    """The event that a thread is about. `fields` are whatever the producer adds.

    With the field `request_host` only workers of that computer remove the request from its source.
    """

    source: Line = "producer"
    title: Line = ""
    text: Text = ""
    at: Line | None = None
    fields: EventFields = {}


class ContextItem(Shape):
    """Something known that may belong to the matter. Its id does not change in its source."""

    id: Line
    source: Line = ""
    type: Line = ""
    label: Line = ""
    payload: dict[str, Any] = {}


class DeclaredRisk(Shape):
    """The properties that a capability declares: every call has at least this risk."""

    idempotent: bool = False
    irreversibility: Line = "high"
    regret_potential: Line = "high"
    risk_amplifier: bool = True
    requires_post_review: bool = False
    deadline_s: Annotated[float, Field(gt=0, le=limits.DEADLINE_S_MAX)] = limits.DEADLINE_S


class GivenAction(Shape):
    """One proposed action."""

    kind: ActionKindName = "standard"
    capability: Line | None = None
    parameters: dict[str, Any] = {}
    summary: Text = ""
    blocked_on: Text | None = None
    irreversibility: Line = "high"
    regret_potential: Line = "high"
    risk_amplifier: bool = True


def _checked_policy(policy: dict[str, Any] | str | None) -> dict[str, Any] | str | None:
    parse(policy)
    return policy


PolicyField = Annotated[dict[str, Any] | str | None, AfterValidator(_checked_policy)]


class GivenProposals(Shape):
    """Proposals that the producer hands in; no model is asked for them."""

    intent: Line | None = None
    item_ids: list[Line] | None = None
    action: GivenAction | None = None


class ThreadPart(Shape):
    """One part of a matter, which is resolved by itself."""

    title: Line = ""
    text: Text = ""
    fields: EventFields = {}
    items: list[ContextItem] = []
    policy: PolicyField = None


class ThreadChild(ThreadPart):
    """A part that a person or a capability splits off, perhaps with proposals for it."""

    given: GivenProposals | None = None


Relationship = Literal["decompose", "group", "singular"]


class NewThread(Shape):
    """A thread as a producer submits it. With `hold` it stays proposed until a person begins it."""

    inciting: IncitingEvent
    items: Annotated[list[ContextItem], Field(max_length=limits.ITEMS_MAX)] = []
    policy: PolicyField = None
    given: GivenProposals | None = None
    children: Annotated[list[ThreadPart], Field(max_length=Children.NUMBER_MAX)] = []
    relationship: Relationship = "decompose"
    tags: Tags = []
    hold: bool = False
    expires_s: Annotated[int, Field(gt=0, le=limits.EXPIRES_S_MAX)] | None = None
    remind_s: Annotated[int, Field(gt=0, le=limits.REMIND_S_MAX)] = limits.REMIND_S


class InferredProposal(Shape):
    """The proposal of an inference for one target."""

    payload: dict[str, Any]
    confidence: Confidence


class ProposedIntent(BaseModel):
    """The fields of a proposed intent that guards and cards read."""

    intent: Annotated[str, Field(min_length=1, max_length=limits.TEXT_LENGTH_MAX)]


class ProposedContext(BaseModel):
    """The fields of a proposed context that guards and cards read."""

    item_ids: list[Line]


class ProposedAction(BaseModel):
    """The fields of a proposed action that guards and cards read."""

    kind: ActionKindName
    capability: Line | None = None
    parameters: dict[str, Any] = {}


PROPOSED: Mapping[str, type[BaseModel]] = {
    "intent": ProposedIntent,
    "context": ProposedContext,
    "action": ProposedAction,
}


class ThreadInferenceStarted(Shape):
    """A worker begins to ask the model."""

    model: Line = ""
    attempt: int = 1
    tier: Line = ""


class ThreadInferenceDone(Shape):
    """A proposal, and what its capability declares.

    `prefetched` are the other proposals of a model call that asked for several at once.
    """

    proposal: InferredProposal
    prefetched: dict[TargetName, InferredProposal] = {}
    declared: DeclaredRisk | None = None
    model: Line = ""
    origin: Literal["model", "given", "prefetched"] = "model"
    prompt: int = 0


class AnswerOption(Shape):
    """An answer that a person may pick: what it says on its button, and the text that it gives."""

    says: Line
    text: Line


class ThreadFailure(Shape):
    """The reason why something did not succeed: a code for programs, a sentence for people.

    `options` are answers that a person may pick instead of words.
    """

    code: Line = "unknown"
    detail: Text = ""
    exit_code: int | None = None
    run: Line = ""
    options: Annotated[list[AnswerOption], Field(max_length=limits.OPTIONS_MAX)] = []


class ThreadBudgetExceeded(Shape):
    """A call of a model that the family's cap does not allow."""

    estimate_micro: int = 0
    code: Line = "budget_exceeded"
    detail: Text = ""


class ThreadEdited(CardAnswer):
    """The changes of a person. `clear`: neither this proposal nor an older one may run.

    Each card takes some of these fields: see EditedIntent, EditedContext and EditedAction.
    """

    names_action: ClassVar[bool] = True
    intent: Line | None = None
    item_ids: list[Line] | None = None
    capability: Name | None = None
    parameters: dict[str, Any] | None = None
    declared: SkipJsonSchema[DeclaredRisk | None] = None
    clear: Literal[True] | None = None
    reason: Text | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> ThreadEdited:
        if not self.model_dump(exclude_defaults=True, exclude={"reason"}):
            raise ValueError("say what to change: intent, item_ids, capability, parameters, clear")
        return self


class EditedIntent(CardAnswer):
    """A person's intent instead of the proposed one."""

    intent: Line


class EditedContext(CardAnswer):
    """The items that a person chose instead of the proposed ones."""

    item_ids: list[Line]


class EditedAction(CardAnswer):
    """Another capability, other parameters, or `clear`: then no action may run. `reason` is why."""

    capability: Name | None = None
    parameters: dict[str, Any] | None = None
    clear: Literal[True] | None = None
    reason: Text | None = None

    rules: ClassVar[Mapping[str, Any]] = {
        "anyOf": [{"required": [name]} for name in ("capability", "parameters", "clear")]
    }


class ThreadRedirected(CardAnswer):
    """Start again from a phase, with a person's feedback."""

    feedback: Text = ""
    target: TargetName | None = None


class ThreadProvided(CardAnswer):
    """The answer to a clarification, or a whole action where the person knows what to do."""

    names_action: ClassVar[bool] = True
    text: Text = ""
    values: dict[str, Any] = {}
    capability: Name | None = None
    parameters: dict[str, Any] | None = None
    declared: SkipJsonSchema[DeclaredRisk | None] = None

    rules: ClassVar[Mapping[str, Any]] = {
        "anyOf": [
            {"required": ["text"], "properties": {"text": {"pattern": r"\S"}}},
            {"required": ["values"], "properties": {"values": {"minProperties": 1}}},
            {"required": ["capability"]},
        ],
        "dependentRequired": {"parameters": ["capability"]},
    }

    @model_validator(mode="after")
    def _says_something(self) -> ThreadProvided:
        if self.parameters is not None and not self.capability:
            raise ValueError("parameters belong to a capability: name it too, or give `values`")
        if not (self.text.strip() or self.values or self.capability):
            raise ValueError("say something: text, values, or a capability with its parameters")
        return self


class ThreadReason(CardAnswer):
    """The reason why a person ends, rejects or cancels."""

    reason: Text = ""


class ThreadHandedOff(Shape):
    """The person or system that goes on with the matter, and a reference to it there."""

    to: Annotated[str, Field(min_length=1, max_length=limits.RECEIVER_LENGTH_MAX)]
    kind: Literal["person", "system"]
    reference: Annotated[str, Field(min_length=1, max_length=limits.LINE_LENGTH_MAX)]


class ThreadExecutionDone(Shape):
    """The result of a capability; `run` names the effect whose notes have the steps."""

    result: Any = None
    run: Line = ""
    truncated: bool = False


class ThreadDecomposed(Shape):
    """The parts that a matter falls into."""

    children: Annotated[list[ThreadChild], Field(min_length=1, max_length=Children.NUMBER_MAX)]
    relationship: Relationship = "decompose"
    run: Line = ""


class ThreadCleanupSucceeded(Shape):
    """The result of tidying up the source of the matter."""

    detail: Text = ""
    already_gone: bool = False


class ThreadChildrenDone(Shape):
    """The number of children that ended, by the state in which they ended."""

    tally: dict[str, int]
