"""The plan of a run as its record stores it: codons, loops and sentinels."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    Tag,
    ValidationInfo,
    model_validator,
)

from interlock.system.files import MONEY, Required, ValueKind
from interlock.systems.runs.machines.values import fitting
from interlock.systems.runs.plan.part import (
    OF_JSON,
    SECONDS,
    TRUE,
    CommandSeconds,
    CommandText,
    Environment,
    Iterations,
    ModelName,
    Name,
    PlanPart,
    Prompt,
    RunSeconds,
    written_form,
)
from interlock.systems.runs.plan.rig import RIG_ITEMS_MAX, RigItem

CODONS_MAX = 500
SENTINELS_MAX = 50
SEQUENCE_MAX = 20
RETRY_DELAY_MS_MAX = 60_000
IDLE_S_DEFAULT = 600
_ENDS = "write when it ends: `until: {iterations: <n>}`, or `until: context_exceeded`"
_CODONS = Required("write `codons:` and a list of at least one codon")
_STRATEGY = "write immediate, {debounce_s: <s>}, {count: <n>} or {window_s: <s>}"
_POLICY = "write abort, ignore or {retry: {attempts: <n>, delay_ms: <ms>}}"
_UNTIL = "write {iterations: <n>} or context_exceeded"


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


SentinelEvent = Annotated[SentinelEventName, OF_JSON]


def _distinct(events: tuple[SentinelEvent, ...]) -> tuple[SentinelEvent, ...]:
    for event in sorted({each for each in events if events.count(each) > 1}):
        raise ValueError(f"{event} is listed more than once; write it once")
    return events


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

    cost_micro: Annotated[
        Annotated[int, Field(ge=1, le=10**15), MONEY] | None, Field(alias="cost_usd")
    ] = None
    duration_s: RunSeconds | None = None
    output_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    exceeded: Annotated[BudgetPolicy, OF_JSON] = BudgetPolicy.COMPLETE

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return the problem of a budget with exactly these fields, or an empty text."""
        if any(limit in fields for limit in cls.LIMITS):
            return ""
        return "it limits nothing; write cost_usd, duration_s or output_tokens"


class PlannedStrategy(PlanPart):
    """When a sentinel is called for matching events: at once, or by one of these limits."""

    debounce_ms: Annotated[
        Annotated[int, Field(ge=1, le=300_000), SECONDS] | None, Field(alias="debounce_s")
    ] = None
    count: Annotated[int, Field(ge=1, le=1_000)] | None = None
    window_ms: Annotated[
        Annotated[int, Field(ge=1, le=3_600_000), SECONDS] | None, Field(alias="window_s")
    ] = None

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return the problem of a strategy with exactly these fields, or an empty text."""
        if len(fields) > 1:
            return "choose one of debounce_s, count and window_s"
        return ""

    def stored(self) -> Self:
        """Return it as it is: its form in a file is the same."""
        return self


class SentinelFields(CommandOrModel):
    """A sentinel without its name."""

    on: Annotated[
        tuple[SentinelEvent, ...],
        Field(max_length=len(SentinelEventName)),
        OF_JSON,
        AfterValidator(_distinct),
        ValueKind.filled_list("event"),
    ] = ()
    sequence: Annotated[
        tuple[SentinelEvent, ...],
        Field(max_length=SEQUENCE_MAX),
        OF_JSON,
        ValueKind.filled_list("event"),
    ] = ()
    strategy: Annotated[
        PlannedStrategy, written_form(PlannedStrategy, _STRATEGY, {"immediate": PlannedStrategy()})
    ] = PlannedStrategy()
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


class PlannedSentinel(SentinelFields):
    """A sentinel: any event of `on` triggers it, or all events of `sequence` in their order.

    Where it is `required`, a codon that cannot load it fails.
    """

    id: Name


class SentinelsForm(
    RootModel[Annotated[dict[Name, SentinelFields], Field(max_length=SENTINELS_MAX)]]
):
    """The sentinels of a file, by their names."""

    def stored(self) -> tuple[PlannedSentinel, ...]:
        """Return the sentinels with their names."""
        return tuple(PlannedSentinel(id=name, **dict(of)) for name, of in self.root.items())


class RetrySettings(PlanPart):
    """How often a codon is tried, the first time included, and how long the run waits between."""

    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    delay_ms: Annotated[int, Field(ge=0, le=RETRY_DELAY_MS_MAX)] = 1_000


class OnFailure(RetrySettings):
    """How a run goes on when a codon fails; `attempts` counts the first one too."""

    policy: Annotated[FailurePolicy, OF_JSON] = FailurePolicy.ABORT


class OnFailureForm(BaseModel):
    """What a file has for a codon that is tried again; without settings it has the defaults."""

    model_config = ConfigDict(extra="forbid")
    retry: RetrySettings | None = None

    def stored(self) -> OnFailure:
        """Return the policy as the plan stores it."""
        return OnFailure(policy=FailurePolicy.RETRY, **dict(self.retry or ()))


class PlannedCodon(CommandOrModel):
    """One step of a plan: the rig, then an agent's process or a model's answer."""

    id: Annotated[Name, Field(alias="codon"), Required("name it: `codon: <name>`")]
    rig: Annotated[
        tuple[RigItem, ...], Field(max_length=RIG_ITEMS_MAX), OF_JSON, ValueKind.filled_list("item")
    ] = ()
    speaks: Annotated[OutputFormat, OF_JSON] = OutputFormat.PLAIN
    continuation: Annotated[SessionChoice, OF_JSON] = SessionChoice.FRESH
    on_failure: Annotated[
        OnFailure,
        written_form(
            OnFailureForm,
            _POLICY,
            {
                policy: OnFailure(policy=policy)
                for policy in (FailurePolicy.ABORT, FailurePolicy.IGNORE)
            },
        ),
    ] = OnFailure()
    budget: PlanBudget | None = None
    sentinels: Annotated[
        tuple[str, ...], Field(max_length=SENTINELS_MAX), OF_JSON, ValueKind.filled_list("sentinel")
    ] = ()
    timeout_s: RunSeconds | None = None
    idle_s: CommandSeconds = IDLE_S_DEFAULT
    environment: Environment = Field(default={})

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return the problem of a codon with exactly these fields, or an empty text."""
        if "speaks" in fields and "command" not in fields and "model" in fields:
            return "speaks is for a command; take it out"
        return super().mismatch(fields)


def _no_loop(codon: Any) -> Any:
    if isinstance(codon, dict) and "loop" in codon:
        raise ValueError("a loop cannot be in a loop; write its codons here, or put it outside")
    return codon


class LoopEnd(PlanPart):
    """When a loop ends: after `iterations` or when a context is full, whichever comes first."""

    context_exceeded: Annotated[bool, TRUE] = False
    iterations: Iterations | None = None

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return the problem of an end with exactly these fields, or an empty text."""
        if "context_exceeded" in fields or "iterations" in fields:
            return ""
        return _ENDS

    def stored(self) -> Self:
        """Return it as it is: its form in a file is the same."""
        return self


class PlannedLoop(PlanPart):
    """Codons that are executed repeatedly."""

    id: Annotated[Name, Field(alias="loop"), Required("name it: `loop: <name>`")]
    until: Annotated[
        LoopEnd,
        written_form(LoopEnd, _UNTIL, {"context_exceeded": LoopEnd(context_exceeded=True)}),
        Required(_ENDS),
    ]
    codons: Annotated[
        tuple[Annotated[PlannedCodon, BeforeValidator(_no_loop)], ...],
        Field(min_length=1, max_length=CODONS_MAX),
        OF_JSON,
        ValueKind.filled_list("codon"),
        _CODONS,
    ]


def _kind(step: Any) -> str:
    """Return whether a step is a codon or a loop: only a loop has an end, or is called so."""
    if isinstance(step, Mapping):
        return LOOP if "loop" in step or ("until" in step and "codon" not in step) else CODON
    return LOOP if isinstance(step, PlannedLoop) else CODON


# No field of a step is called so.
LOOP, CODON = "<loop>", "<codon>"
Step = Annotated[
    Annotated[PlannedCodon, Tag(CODON)] | Annotated[PlannedLoop, Tag(LOOP)],
    Discriminator(_kind),
]


class RunPlan(PlanPart):
    """A plan: its steps in their order. A codon's own `environment` overrules the plan's."""

    name: Annotated[Name, Field(alias="plan"), Required("name the plan: `plan: <name>`")]
    environment: Environment = Field(default={})
    budget: PlanBudget | None = None
    sentinels: Annotated[
        tuple[PlannedSentinel, ...],
        Field(max_length=SENTINELS_MAX),
        OF_JSON,
        written_form(SentinelsForm, "write each below its name, like `watcher:`", {}),
    ] = ()
    steps: Annotated[
        tuple[Step, ...],
        Field(alias="codons", min_length=1),
        OF_JSON,
        ValueKind.filled_list("codon"),
        _CODONS,
    ]

    @model_validator(mode="after")
    def _is_consistent(self, info: ValidationInfo) -> Self:
        if info.context is not None:
            return self  # the reader of the file names the places of all that is not
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
        with fitting("the plan"):
            return cls.model_validate(stored)

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
