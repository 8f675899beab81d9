"""The plan of a run as its record keeps it: codons, loops, sentinels; it reads no file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

CODONS_MAX = 500
SENTINELS_MAX = 50
RIG_ITEMS_MAX = 100
SEQUENCE_MAX = 20
VARIABLES_MAX = 100
ITERATIONS_MAX = 10_000
RETRY_DELAY_MS_MAX = 60_000
IDLE_S_DEFAULT = 600
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
Line = Annotated[str, Field(min_length=1, max_length=8_000)]
Prompt = Annotated[str, Field(min_length=1, max_length=64_000)]
ModelName = Annotated[str, Field(max_length=200, pattern=r"^[^\s:]+:\S+$")]
RigPath = Annotated[str, Field(min_length=1, max_length=1_000)]
Variable = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Setting = Annotated[str, Field(max_length=8_000)]
Environment = Annotated[dict[Variable, Setting], Field(max_length=VARIABLES_MAX)]
CommandSeconds = Annotated[int, Field(ge=1, le=86_400)]
RunSeconds = Annotated[int, Field(ge=1, le=31_536_000)]
Iterations = Annotated[int, Field(ge=1, le=ITERATIONS_MAX)]


class Exceeded(StrEnum):
    """What becomes of a codon or run that has used up its budget."""

    COMPLETE = "complete"
    FAIL = "fail"


class Speech(StrEnum):
    """What an agent's command prints."""

    PLAIN = "plain"
    INTERLOCK = "interlock"
    CLAUDE = "claude"


class Continuation(StrEnum):
    """Whether a codon begins a session of its own or goes on with that of the one before."""

    FRESH = "fresh"
    CONTINUE_PREVIOUS = "continue_previous"


class Policy(StrEnum):
    """What follows when a codon fails."""

    ABORT = "abort"
    IGNORE = "ignore"
    RETRY = "retry"


class RigFolder(StrEnum):
    """Where a command of a rig runs: in the workspace, or where the last item copied to."""

    WORKSPACE = "workspace"
    COPIED = "copied"


class Observed(StrEnum):
    """What a sentinel can be told of: the public events of its codon, then what the agent says."""

    CODON_STARTED = "codon_started"
    CODON_TRANSITIONED = "codon_transitioned"
    COSTS_UPDATED = "costs_updated"
    COSTS_INCREMENTED = "costs_incremented"
    ASSISTANT_MESSAGE_COUNT_UPDATED = "assistant_message_count_updated"
    CODON_FINAL_COST_SET = "codon_final_cost_set"
    CHECKPOINT_CREATED = "checkpoint_created"
    ASSISTANT_MESSAGE = "assistant_message"
    TOOL_STARTED = "tool_started"
    TOOL_COMPLETED = "tool_completed"
    PROGRESS = "progress"
    OUTPUT_LINE = "output_line"


class Shape(BaseModel):
    """A part of a plan that never changes; an unknown field is refused.

    The model is also what an imported record passes, so it refuses by itself what `mismatch` tells.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:  # noqa: ARG003 - most take any fields
        """Return what is wrong with a part that has just these fields, or nothing."""
        return ""

    @model_validator(mode="after")
    def _matches(self) -> Self:
        # A field that is as always counts as not there: that is how it is stored.
        shape = type(self).model_fields
        given = {
            name
            for name, told in shape.items()
            if told.is_required() or getattr(self, name) != told.get_default()
        }
        if wrong := self.mismatch(given):
            raise ValueError(wrong)
        return self


class Worker(Shape):
    """What works or watches: a shell command, or a model with a prompt."""

    command: Line | None = None
    model: ModelName | None = None
    prompt: Prompt | None = None

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return what is wrong with a worker that has just these fields, or nothing."""
        if "command" in fields and "model" in fields:
            return "it has a command and a model; take one out"
        if "model" in fields and "prompt" not in fields:
            return "say what the model is asked: `prompt: <text>`"
        if "prompt" in fields and "model" not in fields:
            return "a prompt is for a model; write `model: <provider>:<name>`, or take it out"
        if "command" not in fields and "model" not in fields:
            return "say who works: `command: <command>`, or `model` and `prompt`"
        return ""


class Budget(Shape):
    """What a codon or the whole run may use: micro-dollars, s, tokens of output."""

    LIMITS: ClassVar = ("cost_micro", "duration_s", "output_tokens")

    cost_micro: Annotated[int, Field(ge=1, le=10**15)] | None = None
    duration_s: RunSeconds | None = None
    output_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    exceeded: Exceeded = Exceeded.COMPLETE

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return what is wrong with a budget that has just these fields, or nothing."""
        if any(limit in fields for limit in cls.LIMITS):
            return ""
        return "it limits nothing; write cost_usd, duration_s or output_tokens"


class Strategy(Shape):
    """When a sentinel answers what it was told of: at once, or by one of these."""

    debounce_ms: Annotated[int, Field(ge=1, le=300_000)] | None = None
    count: Annotated[int, Field(ge=1, le=1_000)] | None = None
    window_ms: Annotated[int, Field(ge=1, le=3_600_000)] | None = None

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return what is wrong with a strategy that has just these fields, or nothing."""
        if len(fields) > 1:
            return "choose one of debounce_s, count and window_s"
        return ""


class PlannedSentinel(Worker):
    """An observer: it is told of any of the events `on`, or when `sequence` came in its order.

    Where it is `required`, a codon that cannot load it fails.
    """

    id: Name
    on: Annotated[tuple[Observed, ...], Field(max_length=len(Observed))] = ()
    sequence: Annotated[tuple[Observed, ...], Field(max_length=SEQUENCE_MAX)] = ()
    strategy: Strategy = Strategy()
    required: bool = False
    timeout_s: Annotated[int, Field(ge=1, le=3_600)] = 30

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return what is wrong with a sentinel that has just these fields, or nothing."""
        if "on" in fields and "sequence" in fields:
            return "it has on and sequence; take one out"
        if "on" not in fields and "sequence" not in fields:
            return "say what it watches: `on: [<event>]`, or `sequence: [<event>, <event>]`"
        return super().mismatch(fields)


class RigCopy(Shape):
    """A file or folder to copy before a codon starts; both paths are inside of the workspace."""

    source: RigPath
    target: RigPath
    allow_failure: bool = False


class RigCommand(Shape):
    """A shell command to run before a codon starts."""

    run: Line
    folder: RigFolder = RigFolder.WORKSPACE
    timeout_s: CommandSeconds = 600
    allow_failure: bool = False


class OnFailure(Shape):
    """What follows when a codon fails; `attempts` counts the first one too."""

    policy: Policy = Policy.ABORT
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    delay_ms: Annotated[int, Field(ge=0, le=RETRY_DELAY_MS_MAX)] = 1_000


class PlannedCodon(Worker):
    """One step of a plan: the rig, then an agent's process or a model's answer."""

    id: Name
    rig: Annotated[tuple[RigCopy | RigCommand, ...], Field(max_length=RIG_ITEMS_MAX)] = ()
    speaks: Speech = Speech.PLAIN
    continuation: Continuation = Continuation.FRESH
    on_failure: OnFailure = OnFailure()
    budget: Budget | None = None
    sentinels: Annotated[tuple[Name, ...], Field(max_length=SENTINELS_MAX)] = ()
    timeout_s: RunSeconds | None = None
    idle_s: CommandSeconds = IDLE_S_DEFAULT
    environment: Environment = {}

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return what is wrong with a codon that has just these fields, or nothing."""
        if "speaks" in fields and "command" not in fields and "model" in fields:
            return "speaks is for a command; take it out"
        return super().mismatch(fields)


class Until(Shape):
    """When a loop ends; an exceeded context ends it only where it says so, `iterations` caps it."""

    context_exceeded: bool = False
    iterations: Iterations | None = None

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return what is wrong with an end that has just these fields, or nothing."""
        if "context_exceeded" in fields or "iterations" in fields:
            return ""
        return "say when it ends: `until: {iterations: <n>}`, or `until: context_exceeded`"


class PlannedLoop(Shape):
    """Codons that are done again and again."""

    id: Name
    until: Until
    codons: Annotated[tuple[PlannedCodon, ...], Field(min_length=1, max_length=CODONS_MAX)]


class Plan(Shape):
    """All that a run does, in its order; `environment` is every codon's, who may overrule it."""

    name: Name
    environment: Environment = {}
    budget: Budget | None = None
    sentinels: Annotated[tuple[PlannedSentinel, ...], Field(max_length=SENTINELS_MAX)] = ()
    steps: Annotated[tuple[PlannedCodon | PlannedLoop, ...], Field(min_length=1)]

    def stored(self) -> dict[str, Any]:
        """Return the plan as JSON, without what is as always."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Plan:
        """Return the plan that was stored. Raises pydantic's ValidationError."""
        return cls.model_validate(stored)

    def codons(self) -> Iterator[PlannedCodon]:
        """Return each codon once, those of loops in their place."""
        for step in self.steps:
            if isinstance(step, PlannedLoop):
                yield from step.codons
            else:
                yield step

    def sentinel(self, sentinel_id: str) -> PlannedSentinel:
        """Return a sentinel that codons name. Raises KeyError."""
        for one in self.sentinels:
            if one.id == sentinel_id:
                return one
        raise KeyError(sentinel_id)
