"""The settings: read once from the variables INTERLOCK_*, validated, and passed down."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    ValidationError,
    field_validator,
)

from interlock.kernel.payload import Word
from interlock.kernel.scales import Tier

PREFIX = "INTERLOCK_"
# This variable lists those that describe a command's work. The command may call `interlock`, which
# must not read them as settings.
WORK_VARIABLES = f"{PREFIX}WORK_VARIABLES"
# Every agent's process gets these from the module that starts it.
PROCESS_VARIABLES = (f"{PREFIX}AGENT_MARK", f"{PREFIX}REPORT_FD", WORK_VARIABLES)
SINGLE_SERVER_SCHEMES = ("redis://", "rediss://", "unix://")
UP_FILE = "up.json"  # in this file `interlock up` names its store
UNSUPPORTED_BROKERS = ("redis+sentinel://", "redis+cluster://", "sentinel://")
Seconds = Annotated[float, Field(gt=0, le=100 * 365 * 86_400)]


class SetupError(Exception):
    """The deployment or its settings are wrong. The message says what a person has to change."""


class SettingsError(SetupError, ValueError):
    """A setting is missing or wrong. The message names the variable, its value and what to do."""


class Settings(BaseModel):
    """The settings of a deployment. Field `x` is read from the variable INTERLOCK_X."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store_url: Annotated[
        str, Field(pattern=r"^(redis|rediss|unix|redis\+sentinel|redis\+cluster)://")
    ] = "redis://127.0.0.1:6379/0"
    broker_url: Annotated[
        str | None,
        Field(
            pattern=r"^(redis|rediss|unix|amqp|amqps|pyamqp|(redis\+)?sentinel|redis\+cluster)://"
        ),
    ] = None
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] = "il"
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] = "interlock"
    enqueue: Literal["auto", "fused", "plain"] = "auto"
    ack_emulation: bool = False
    task_events: bool = True

    concurrency: Annotated[int, Field(ge=1, le=2_000)] = 20
    affinity: bool = True
    lease_s: Seconds | None = None
    poll_s: Seconds = 5.0
    sweep_period_s: Seconds = 1.0
    sweep_batch: Annotated[int, Field(ge=1, le=1_000)] = 100
    sweep_budget_s: Seconds = 5.0
    op_window_s: Seconds = 86_400.0
    prune_after_s: Seconds = 30 * 86_400.0
    tombstone_s: Seconds = 365 * 86_400.0
    remind_s: Seconds = 86_400.0
    archive: Path | None = None

    model: str = "embedded:wordllama"
    model_base_url: str | None = None
    model_api_key: str | None = None
    tier_models: dict[Tier, str] = Field(default_factory=dict)
    # In dollars for a million tokens of input and of output.
    model_prices: dict[str, tuple[NonNegativeFloat, NonNegativeFloat]] = Field(default_factory=dict)
    model_timeout_s: Seconds = 120.0
    model_attempts_max: Annotated[int, Field(ge=1, le=20)] = 4
    judge_model: str | None = None
    judge_s: Seconds = 60.0
    verify_s: Seconds = 120.0
    capabilities: str | None = None

    sources_root: Path = Path()  # the effect `cleanup` only touches files below this folder
    cards: Path | None = None
    cards_webhook: str | None = None
    home: Path = Path(".interlock")
    worktrees: Path | None = None  # by default a folder below the user's XDG state folder
    alive: Path | None = None  # a worker or beat touches this file while it works, for probes
    stage_failures: bool = False  # whether `interlock task fail-stage` may fail unclaimed tasks
    agents_max: Annotated[int, Field(ge=0, le=1_000)] = 4  # agents that run at once on this machine
    disk_free_min_mb: Annotated[int, Field(ge=0)] = 200  # with less, no job's worker starts
    queue_slots: dict[Word, int] = Field(default_factory=dict)  # jobs that run at once, by queue
    agent_log_bytes_max: Annotated[int, Field(ge=4_096)] = 8 * 1024 * 1024
    stall_s: Seconds = 300.0
    spawn_s: Seconds = 60.0
    roles: tuple[Word, ...] = Field(default_factory=tuple)  # empty: tasks may name any role
    host: str = Field(default_factory=socket.gethostname)

    @field_validator("tier_models", mode="before")
    @classmethod
    def _pairs(cls, value: object) -> object:
        """Read `tier=model,tier=model`."""
        if not isinstance(value, str):
            return value
        pairs = [pair.partition("=") for pair in value.split(",")]
        if not all(tier and model for tier, _, model in pairs):
            raise ValueError("write tier=model, several separated by commas")
        return {tier.strip(): model.strip() for tier, _, model in pairs}

    @field_validator("model_prices", mode="before")
    @classmethod
    def _prices(cls, value: object) -> object:
        """Read `model=input/output,model=input/output`."""
        if not isinstance(value, str):
            return value
        prices: dict[str, tuple[str, str]] = {}
        for pair in value.split(","):
            model, _, price = pair.strip().rpartition("=")
            of_input, slash, of_output = price.partition("/")
            if not (model and slash):
                raise ValueError("write model=INPUT/OUTPUT, several separated by commas")
            prices[model] = (of_input, of_output)
        return prices

    @field_validator("queue_slots", mode="before")
    @classmethod
    def _slots(cls, value: object) -> object:
        """Read `queue=slots,queue=slots`."""
        if not isinstance(value, str):
            return value
        pairs = [pair.strip().partition("=") for pair in value.split(",")]
        if not all(queue and slots.isdecimal() and int(slots) > 0 for queue, _, slots in pairs):
            raise ValueError("write queue=slots with at least 1, several separated by commas")
        return {queue: int(slots) for queue, _, slots in pairs}

    @field_validator("roles", mode="before")
    @classmethod
    def _roles(cls, value: object) -> object:
        """Read `role,role`."""
        return [role.strip() for role in value.split(",")] if isinstance(value, str) else value

    @property
    def worktree_folder(self) -> Path:
        """The folder of this home's worktrees and checkouts. Raises SettingsError.

        It is in no project: a test runner or linter that looks for its configuration in the folders
        above it would find that of the project. No two homes or prefixes share it.
        """
        key = f"{self.home.absolute()} {self.prefix}"
        digest = sha256(os.fsencode(key)).hexdigest()[:12]
        return (self.worktrees or _state_folder()).absolute() / digest

    @property
    def broker(self) -> str:
        """The URL that messages go to: the store's, if no other is set."""
        return self.broker_url or self.store_url

    @property
    def fused(self) -> bool:
        """Whether a commit pushes the messages itself; broker and store must be one database."""
        same = self.broker_url in (None, self.store_url)
        possible = same and self.store_url.startswith(SINGLE_SERVER_SCHEMES)
        return possible and self.enqueue != "plain"


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. An unknown INTERLOCK_* variable is an error, as it is usually a typo."""
    variables = os.environ if environment is None else environment
    others = {*PROCESS_VARIABLES, *variables.get(WORK_VARIABLES, "").split(",")}
    values = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in variables.items()
        if name.startswith(PREFIX) and name not in others and value != ""
    }
    try:
        settings = Settings.model_validate(values)
    except ValidationError as refusal:
        problems = "; ".join(
            f"{PREFIX}{str(error['loc'][0]).upper()} is no setting; see docs/configuration.md"
            if error["type"] == "extra_forbidden"
            else f"{PREFIX}{str(error['loc'][0]).upper()}={_shown(error['input'])}: {error['msg']}"
            for error in refusal.errors(include_url=False)
        )
        raise SettingsError(f"settings: {problems}") from None
    if settings.broker.startswith(UNSUPPORTED_BROKERS):
        raise SettingsError(
            f"settings: {_shown(settings.broker)} cannot be the broker: messages cannot go "
            "through Sentinel or Cluster; set INTERLOCK_BROKER_URL to one server or RabbitMQ"
        )
    if settings.enqueue == "fused" and not settings.fused:
        raise SettingsError(
            "settings: INTERLOCK_ENQUEUE='fused' needs broker and store to be one Redis server and "
            "database; unset INTERLOCK_BROKER_URL or choose plain"
        )
    return settings


def environment_without_settings() -> dict[str, str]:
    """Return the environment without INTERLOCK_*: another program must see no store and no key."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


def environment_of_work(*fields: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command of an agent, job or codon; `fields` describe its work."""
    variables = environment_without_settings()
    for part in fields:
        variables.update(part)
    settings = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    work = [name for name in variables if name.startswith(PREFIX) and name not in settings]
    return {**variables, WORK_VARIABLES: ",".join(work)}


def local_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. If they name no store, use the one that `interlock up` started here."""
    settings = read_settings(environment)
    file = settings.home / UP_FILE
    if "store_url" in settings.model_fields_set or not file.exists():
        return settings
    try:
        found = json.loads(file.read_text("utf-8"))
        values = {**dict(found), **settings.model_dump(exclude_unset=True)}
        return Settings.model_validate(values)
    except (OSError, TypeError, ValueError) as refusal:
        raise SettingsError(
            f"{file} cannot be read ({refusal}); remove it or name a store"
        ) from None


def _state_folder() -> Path:
    """Return the folder in which the programs of this user keep such files of Interlock."""
    # The standard says that a path which is not absolute is ignored.
    chosen = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        state = chosen if chosen.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        problem = "this user has no home folder; name one for worktrees: INTERLOCK_WORKTREES"
        raise SettingsError(problem) from None
    return state / "interlock"


def as_variable(value: object) -> str:
    """Return a setting in the form of its environment variable."""
    match value:
        case dict():
            return ",".join(f"{key}={_joined(item, '/')}" for key, item in value.items())
        case _:
            return _joined(value, ",")


def _joined(value: object, separator: str) -> str:
    return separator.join(map(str, value)) if isinstance(value, tuple) else str(value)


def store_hint(settings: Settings) -> str:
    """Return what a person can do if the store of the settings does not answer."""
    if "store_url" in settings.model_fields_set:
        return " (is its address right, and does it run? `interlock up` starts a store here)"
    return (
        f" (`interlock up` does not run in {settings.home.absolute()}, which INTERLOCK_HOME names,"
        " and INTERLOCK_STORE_URL names no other store)"
    )


def _shown(value: object) -> str:
    """Return a value for an error message, without a password."""
    return re.sub(r"(?<=://)[^@/]*@", "...@", repr(value))
