"""The plan of a run as its record stores it: codons, loops and sentinels."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from interlock.kernel.payload import parsed

CODONS_MAX = 500
SENTINELS_MAX = 50
RIG_ITEMS_MAX = 100
SEQUENCE_MAX = 20
VARIABLES_MAX = 100
ITERATIONS_MAX = 10_000
RETRY_DELAY_MS_MAX = 60_000
IDLE_S_DEFAULT = 600
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
CommandText = Annotated[str, Field(min_length=1, max_length=8_000)]
Prompt = Annotated[str, Field(min_length=1, max_length=64_000)]
ModelName = Annotated[str, Field(max_length=200, pattern=r"^[^\s:]+:\S+$")]
RigPath = Annotated[str, Field(min_length=1, max_length=1_000)]
Variable = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Setting = Annotated[str, Field(max_length=8_000)]
Environment = Annotated[dict[Variable, Setting], Field(max_length=VARIABLES_MAX)]
CommandSeconds = Annotated[int, Field(ge=1, le=86_400)]
RunSeconds = Annotated[int, Field(ge=1, le=31_536_000)]
Iterations = Annotated[int, Field(ge=1, le=ITERATIONS_MAX)]


class BudgetPolicy(StrEnum):
    """How a codon ends when it has used up its budget or that of its run."""

    COMPLETE = "complete"
    FAIL = "fail"


class OutputFormat(StrEnum):
    """The format of the reports that an agent's command writes."""

    PLAIN = "plain"
    INTERLOCK = "interlock"
    CLAUDE = "claude"


class SessionChoice(StrEnum):
    """Whether a codon starts a new session or continues that of the codon before it."""

    FRESH = "fresh"
    CONTINUE_PREVIOUS = "continue_previous"


class FailurePolicy(StrEnum):
    """How a run goes on when a codon fails."""

    ABORT = "abort"
    IGNORE = "ignore"
    RETRY = "retry"


class RigFolder(StrEnum):
    """The folder in which a rig's command runs: the workspace, or the last copy."""

    WORKSPACE = "workspace"
    COPIED = "copied"


class SentinelEventName(StrEnum):
    """The events that a sentinel can watch: those of its codon, then those of the agent."""

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


class PlanPart(BaseModel):
    """A part of a plan. It is immutable, and unknown fields are refused.

    An imported record is validated by these models alone, so they also refuse the combinations of
    fields that `mismatch` describes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:  # noqa: ARG003 - most parts take any fields
        """Return the problem of a part with exactly these fields, or an empty text."""
        return ""

    @model_validator(mode="after")
    def _matches(self) -> Self:
        # A field with its default value counts as absent, because it is stored like that.
        fields = type(self).model_fields
        given = {
            name
            for name, field in fields.items()
            if field.is_required() or getattr(self, name) != field.get_default()
        }
        if problem := self.mismatch(given):
            raise ValueError(problem)
        return self


class CommandOrModel(PlanPart):
    """A part that runs a shell command or asks a model: a codon or a sentinel."""

    command: CommandText | None = None
    model: ModelName | None = None
    prompt: Prompt | None = None

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return the problem of a part with exactly these fields, or an empty text."""
        if "command" in fields and "model" in fields:
            return "it has a command and a model; take one out"
        if "model" in fields and "prompt" not in fields:
            return "write what the model is asked: `prompt: <text>`"
        if "prompt" in fields and "model" not in fields:
            return "a prompt is for a model; write `model: <provider>:<name>`, or take it out"
        if "command" not in fields and "model" not in fields:
            return "write what it runs: `command: <command>`, or `model` and `prompt`"
        return ""


class PlanBudget(PlanPart):
    """The budget of a codon or of the whole run: micro-dollars, seconds, output tokens."""

    LIMITS: ClassVar = ("cost_micro", "duration_s", "output_tokens")

    cost_micro: Annotated[int, Field(ge=1, le=10**15)] | None = None
    duration_s: RunSeconds | None = None
    output_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    exceeded: BudgetPolicy = BudgetPolicy.COMPLETE

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return the problem of a budget with exactly these fields, or an empty text."""
        if any(limit in fields for limit in cls.LIMITS):
            return ""
        return "it limits nothing; write cost_usd, duration_s or output_tokens"


class PlannedStrategy(PlanPart):
    """When a sentinel is called for matching events: at once, or by one of these limits."""

    debounce_ms: Annotated[int, Field(ge=1, le=300_000)] | None = None
    count: Annotated[int, Field(ge=1, le=1_000)] | None = None
    window_ms: Annotated[int, Field(ge=1, le=3_600_000)] | None = None

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return the problem of a strategy with exactly these fields, or an empty text."""
        if len(fields) > 1:
            return "choose one of debounce_s, count and window_s"
        return ""


class PlannedSentinel(CommandOrModel):
    """A sentinel: any event of `on` triggers it, or all events of `sequence` in their order.

    Where it is `required`, a codon that cannot load it fails.
    """

    id: Name
    on: Annotated[tuple[SentinelEventName, ...], Field(max_length=len(SentinelEventName))] = ()
    sequence: Annotated[tuple[SentinelEventName, ...], Field(max_length=SEQUENCE_MAX)] = ()
    strategy: PlannedStrategy = PlannedStrategy()
    required: bool = False
    timeout_s: Annotated[int, Field(ge=1, le=3_600)] = 30

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return the problem of a sentinel with exactly these fields, or an empty text."""
        if "on" in fields and "sequence" in fields:
            return "it has on and sequence; take one out"
        if "on" not in fields and "sequence" not in fields:
            return "write what it watches: `on: [<event>]`, or `sequence: [<event>, <event>]`"
        return super().mismatch(fields)


class RigCopy(PlanPart):
    """A file or folder to copy before a codon starts; both paths are inside the workspace."""

    source: RigPath
    target: RigPath
    allow_failure: bool = False


class RigCommand(PlanPart):
    """A shell command to run before a codon starts."""

    run: CommandText
    folder: RigFolder = RigFolder.WORKSPACE
    timeout_s: CommandSeconds = 600
    allow_failure: bool = False


class OnFailure(PlanPart):
    """How a run goes on when a codon fails; `attempts` counts the first one too."""

    policy: FailurePolicy = FailurePolicy.ABORT
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    delay_ms: Annotated[int, Field(ge=0, le=RETRY_DELAY_MS_MAX)] = 1_000


class PlannedCodon(CommandOrModel):
    """One step of a plan: the rig, then an agent's process or a model's answer."""

    id: Name
    rig: Annotated[tuple[RigCopy | RigCommand, ...], Field(max_length=RIG_ITEMS_MAX)] = ()
    speaks: OutputFormat = OutputFormat.PLAIN
    continuation: SessionChoice = SessionChoice.FRESH
    on_failure: OnFailure = OnFailure()
    budget: PlanBudget | None = None
    sentinels: Annotated[tuple[Name, ...], Field(max_length=SENTINELS_MAX)] = ()
    timeout_s: RunSeconds | None = None
    idle_s: CommandSeconds = IDLE_S_DEFAULT
    environment: Environment = {}

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return the problem of a codon with exactly these fields, or an empty text."""
        if "speaks" in fields and "command" not in fields and "model" in fields:
            return "speaks is for a command; take it out"
        return super().mismatch(fields)


class LoopEnd(PlanPart):
    """When a loop ends: after `iterations` or when a context is full, whichever comes first."""

    context_exceeded: bool = False
    iterations: Iterations | None = None

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return the problem of an end with exactly these fields, or an empty text."""
        if "context_exceeded" in fields or "iterations" in fields:
            return ""
        return "write when it ends: `until: {iterations: <n>}`, or `until: context_exceeded`"


class PlannedLoop(PlanPart):
    """Codons that are executed repeatedly."""

    id: Name
    until: LoopEnd
    codons: Annotated[tuple[PlannedCodon, ...], Field(min_length=1, max_length=CODONS_MAX)]


def _kind(step: Any) -> str:
    """Return whether a step is a codon or a loop: only a loop has an end."""
    has_end = "until" in step if isinstance(step, Mapping) else isinstance(step, PlannedLoop)
    return "loop" if has_end else "codon"


Step = Annotated[
    Annotated[PlannedCodon, Tag("codon")] | Annotated[PlannedLoop, Tag("loop")],
    Discriminator(_kind),
]


class RunPlan(PlanPart):
    """A plan: its steps in their order. A codon's own `environment` overrules the plan's."""

    name: Name
    environment: Environment = {}
    budget: PlanBudget | None = None
    sentinels: Annotated[tuple[PlannedSentinel, ...], Field(max_length=SENTINELS_MAX)] = ()
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        names = [step.id for step in self.steps if isinstance(step, PlannedLoop)]
        names += [codon.id for codon in self.codons()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"several codons or loops are named {', '.join(twice)}")
        known = {sentinel.id for sentinel in self.sentinels}
        used = {name for codon in self.codons() for name in codon.sentinels}
        if lacking := sorted(used - known):
            raise ValueError(f"it has no sentinel {', '.join(lacking)}")
        return self

    def stored(self) -> dict[str, Any]:
        """Return the plan as JSON, without the fields that have their default value."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> RunPlan:
        """Return the plan from its stored form. Raises InvalidPayloadError."""
        return parsed(cls, "the plan", stored)

    def codons(self) -> Iterator[PlannedCodon]:
        """Yield each codon once, in the plan's order, also those of loops."""
        for step in self.steps:
            if isinstance(step, PlannedLoop):
                yield from step.codons
            else:
                yield step

    def sentinel(self, sentinel_id: str) -> PlannedSentinel:
        """Return a sentinel by its id. Raises KeyError."""
        for each in self.sentinels:
            if each.id == sentinel_id:
                return each
        raise KeyError(sentinel_id)
