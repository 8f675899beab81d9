"""The settings: read once from the variables INTERLOCK_*, validated, and passed down."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from interlock.kernel.payload import Word
from interlock.kernel.scales import Tier
from interlock.systems import NAMES

PREFIX = "INTERLOCK_"
# This variable lists those that describe a command's work. The command may call `interlock`, which
# must not read them as settings.
WORK_VARIABLES = f"{PREFIX}WORK_VARIABLES"
# A person who runs an agent may give its claim to commands in these.
CLAIM_VARIABLES = (f"{PREFIX}KEY", f"{PREFIX}TOKEN")
# Every agent's process gets these from the module that starts it.
PROCESS_VARIABLES = (f"{PREFIX}AGENT_MARK", f"{PREFIX}REPORT_FD", WORK_VARIABLES)
SINGLE_SERVER_SCHEMES = ("redis://", "rediss://", "unix://")
API_PORT = 8470
# A home of this name, or in a folder of this name, is in somebody's project.
PROJECT_HOME = ".interlock"
UNSUPPORTED_BROKERS = ("redis+sentinel://", "redis+cluster://", "sentinel://")
SANDBOX_SETTINGS = ("sandbox_hidden", "sandbox_writable")
# In these, agents keep how they were signed in, and tools keep what they downloaded.
SANDBOX_WRITABLE = (
    *("~/.cache", "~/.claude", "~/.claude.json", "~/.codex", "~/.gemini", "~/.npm", "~/.nuget"),
    *("~/.cargo/git", "~/.cargo/registry", "~/.gradle", "~/.m2", "~/go/pkg"),
)
LogFormat = Literal["console", "json"]
Seconds = Annotated[float, Field(gt=0, le=100 * 365 * 86_400)]


class SetupError(Exception):
    """The deployment or its settings are wrong. The message says what a person has to change."""


class SettingsError(SetupError, ValueError):
    """A setting is missing or wrong. The message names the variable, its value and what to do."""


class Settings(BaseModel):
    """The settings of a deployment. Field `x` is read from the variable INTERLOCK_X."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store_url: Annotated[
        str | None,
        Field(pattern=r"^(redis|rediss|unix|redis\+sentinel|redis\+cluster)://", repr=False),
    ] = None
    broker_url: Annotated[
        str | None,
        Field(
            pattern=r"^(redis|rediss|unix|amqp|amqps|pyamqp|(redis\+)?sentinel|redis\+cluster)://",
            repr=False,
        ),
    ] = None
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] = "il"
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] = "interlock"
    enqueue: Literal["auto", "fused", "plain"] = "auto"
    ack_emulation: bool = False
    task_events: bool = True
    log_format: LogFormat = "console"
    traces: Literal["off", "otlp"] = "off"
    metrics_address: str | None = None  # where a process serves its own metrics: HOST:PORT
    intake_accepts: tuple[str, ...] = Field(default_factory=tuple)  # empty: every kind of message

    # Commands that can do without the store call this API, with this token.
    api_url: Annotated[str | None, Field(pattern=r"^https?://")] = None
    api_token: Annotated[str | None, Field(repr=False)] = None
    # How callers of the HTTP API say who they are.
    auth: Literal["tokens", "owner", "none"] = "tokens"
    api_rate: Annotated[int, Field(ge=1, le=100_000)] = 100  # calls a second by one caller
    # People sign in by this OpenID Connect provider, which knows the console as this client.
    oidc_issuer: Annotated[str | None, Field(pattern=r"^https?://[^\s/]+[^\s]*$")] = None
    oidc_client_id: str | None = None
    oidc_client_secret: Annotated[str | None, Field(repr=False)] = None
    oidc_claim: str = "groups"  # what the provider says of a person that gives them roles
    # The claim that gives a person's name in the log; None: a checked address of mail, or `sub`.
    oidc_name_claim: Annotated[str, Field(min_length=1)] | None = None
    oidc_roles: dict[str, str] = Field(default_factory=dict)  # the role of each such group

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
    records_max: Annotated[int, Field(ge=1)] | None = None  # that have not ended; None: no limit
    # How often a canary is submitted, in seconds; with 0 none is.
    canary_s: Annotated[int, Field(ge=0, le=86_400)] = 60
    archive: Path | None = None

    model: str = "embedded:wordllama"
    model_base_url: str | None = None
    model_api_key: Annotated[str | None, Field(repr=False)] = None
    tier_models: dict[Tier, str] = Field(default_factory=dict)
    # In dollars for a million tokens of input and of output.
    model_prices: dict[str, tuple[NonNegativeFloat, NonNegativeFloat]] = Field(default_factory=dict)
    model_timeout_s: Seconds = 120.0
    model_attempts_max: Annotated[int, Field(ge=1, le=20)] = 4
    judge_model: str | None = None
    judge_s: Seconds = 60.0
    verify_s: Seconds = 120.0
    capabilities: str | None = None
    capabilities_root: Path = Path()  # their modules and relative files are there
    systems: tuple[str, ...] = Field(
        default_factory=lambda: NAMES
    )  # those of Interlock, and modules that add machines
    # Variables that data of workflows may name as secrets; a * at the end stands for more.
    secrets: tuple[str, ...] = Field(default_factory=tuple)

    sources_root: Path = Path()  # the effect `cleanup` only touches files below this folder
    cards: Path | None = None
    # For a kind of card: after how many seconds it is escalated, and to which person or role.
    escalations: dict[str, tuple[Seconds, str]] = Field(default_factory=dict)
    public_url: Annotated[str | None, Field(pattern=r"^https?://[^\s/]+[^\s]*$")] = None
    webhooks: Path | None = None  # the file with the endpoints that are notified of cards and ends
    home: Path = Path(PROJECT_HOME)
    worktrees: Path | None = None  # by default in the home, or in the user's XDG state folder
    alive: Path | None = None  # a worker or beat touches this file while it works, for probes
    # Variables that work inherits although they could lead it to another place.
    pass_variables: tuple[str, ...] = Field(default_factory=tuple)
    stage_failures: bool = False  # whether `interlock task fail-stage` may fail unclaimed tasks
    # Seconds in which the subtasks of a task should end; None computes them from their sizes.
    subtasks_s: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    agents_max: Annotated[int, Field(ge=0, le=1_000)] = 4  # agents at once on this computer
    disk_free_min_mb: Annotated[int, Field(ge=0)] = 200  # with less, no job's worker starts
    # For a level of trust: after how many changed files of a task a person is asked.
    files_by_trust: dict[str, int] = Field(default_factory=dict)
    queue_slots: dict[Word, int] = Field(default_factory=dict)  # jobs that run at once, by queue
    sandbox: Literal["auto", "required", "off"] = "auto"  # of agents and other commands for work
    sandbox_writable: tuple[str, ...] = Field(default_factory=lambda: SANDBOX_WRITABLE)
    sandbox_hidden: tuple[str, ...] = Field(default_factory=tuple)
    agent_log_bytes_max: Annotated[int, Field(ge=4_096)] = 8 * 1024 * 1024
    stall_s: Seconds = 300.0
    spawn_s: Seconds = 60.0
    roles: tuple[Word, ...] = Field(default_factory=tuple)  # empty: tasks may name any role
    host: Word = Field(default_factory=socket.gethostname, validate_default=True)

    @field_validator("tier_models", "oidc_roles", mode="before")
    @classmethod
    def _pairs(cls, value: object, field: ValidationInfo) -> object:
        """Read `tier=model,tier=model`, or `group=role,group=role`."""
        if not isinstance(value, str):
            return value
        pairs = [pair.partition("=") for pair in value.split(",")]
        if not all(name and meant for name, _, meant in pairs):
            wanted = "tier=model" if field.field_name == "tier_models" else "group=role"
            raise ValueError(f"write {wanted}, several separated by commas")
        return {name.strip(): meant.strip() for name, _, meant in pairs}

    @field_validator("model_prices", "escalations", mode="before")
    @classmethod
    def _rows(cls, value: object, field: ValidationInfo) -> object:
        """Read `model=input/output,...`, or `kind=seconds/name,...`."""
        if not isinstance(value, str):
            return value
        found: dict[str, tuple[str, str]] = {}
        for row in value.split(","):
            name, _, pair = row.strip().rpartition("=")
            first, _, second = pair.partition("/")
            if not (name and first and second):
                is_price = field.field_name == "model_prices"
                wanted = "model=INPUT/OUTPUT" if is_price else "kind=SECONDS/NAME"
                raise ValueError(f"write {wanted}, several separated by commas")
            found[name] = (first, second)
        return found

    @field_validator("queue_slots", "files_by_trust", mode="before")
    @classmethod
    def _numbers(cls, value: object, field: ValidationInfo) -> object:
        """Read `queue=slots,queue=slots`, or `level=files,level=files`."""
        if not isinstance(value, str):
            return value
        pairs = [pair.strip().partition("=") for pair in value.split(",")]
        is_queue = field.field_name == "queue_slots"
        wanted, least = ("queue=slots", 1) if is_queue else ("level=files", 0)
        if not all(name and count.isdecimal() and int(count) >= least for name, _, count in pairs):
            raise ValueError(f"write {wanted} with at least {least}, several separated by commas")
        return {name: int(count) for name, _, count in pairs}

    @field_validator(
        "intake_accepts",
        "pass_variables",
        "roles",
        "secrets",
        "systems",
        *SANDBOX_SETTINGS,
        mode="before",
    )
    @classmethod
    def _names(cls, value: object) -> object:
        """Read `name,name`."""
        if not isinstance(value, str):
            return value
        return [name for name in map(str.strip, value.split(",")) if name]

    @field_validator("pass_variables")
    @classmethod
    def _variables(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse what is no variable, and git's, which could lead work to another repository."""
        for name in names:
            if not re.fullmatch(r"\w+", name) or name.startswith("GIT_"):
                raise ValueError(f"{name!r} cannot be passed on: name variables, none of GIT_")
        return names

    @field_validator("secrets")
    @classmethod
    def _secrets(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse what is no variable, all variables, and the settings of Interlock."""
        for name in names:
            if not re.fullmatch(r"[A-Za-z_]\w*\*?", name, re.ASCII) or name.startswith(PREFIX):
                raise ValueError(
                    f"{name!r} cannot be read as a secret: name variables, such as STRIPE_KEY or "
                    f"STRIPE_*, none of {PREFIX}"
                )
        return names

    @field_validator("metrics_address")
    @classmethod
    def _address(cls, value: str) -> str:
        """Read HOST:PORT, or PORT for one that only this computer reaches."""
        host, _, port = value.rpartition(":")
        if not (port.isdecimal() and int(port) < 2**16):
            raise ValueError("write a port of at most 65535, or HOST:PORT")
        return f"{host or '127.0.0.1'}:{port}"

    @property
    def worktree_folder(self) -> Path:
        """The folder of this home's worktrees and checkouts. Raises SettingsError.

        It is in no project: an agent, test runner or linter that looks for its configuration in the
        folders above it would find that of the project. No two homes or prefixes share it.
        """
        home = self.home.absolute()
        digest = sha256(os.fsencode(f"{home} {self.prefix}")).hexdigest()[:12]
        default = _state_folder if PROJECT_HOME in home.parts else lambda: home / "worktrees"
        return (self.worktrees or default()).absolute() / digest

    @property
    def store(self) -> str:
        """The URL of the store. Raises SettingsError if none is named: no address is assumed."""
        if self.store_url is None:
            raise SettingsError("INTERLOCK_STORE_URL is not set: name the store there")
        return self.store_url

    @property
    def broker(self) -> str:
        """The URL that messages go to: the store's, if no other is set. Raises SettingsError."""
        return self.broker_url or self.store

    @property
    def fused(self) -> bool:
        """Whether a commit pushes the messages itself; broker and store must be one database."""
        same = self.broker_url in (None, self.store_url)
        # Without an address the store is the one that `interlock up` starts, a single server.
        one_server = self.store_url is None or self.store_url.startswith(SINGLE_SERVER_SCHEMES)
        return same and one_server and self.enqueue != "plain"


def ms(seconds: float) -> int:
    """Return whole milliseconds."""
    return int(seconds * 1_000)


def with_systems(settings: Settings, names: Sequence[str]) -> Settings:
    """Return settings with these systems added. A file's path becomes absolute."""
    found = [str(Path(name).absolute()) if name.endswith(".py") else name for name in names]
    systems = tuple(dict.fromkeys((*settings.systems, *found)))
    return settings.model_copy(update={"systems": systems}) if names else settings


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. An unknown INTERLOCK_* variable is an error, as it is usually a typo."""
    variables = os.environ if environment is None else environment
    others = {*PROCESS_VARIABLES, *CLAIM_VARIABLES, *variables.get(WORK_VARIABLES, "").split(",")}
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
    broker = settings.broker_url or settings.store_url or ""
    if broker.startswith(UNSUPPORTED_BROKERS):
        raise SettingsError(
            f"settings: {_shown(broker)} cannot be the broker: messages cannot go "
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


def _shown(value: object) -> str:
    """Return a value for an error message, without a password."""
    return without_login(repr(value))


def without_login(text: str) -> str:
    """Return a text in which no address has its user and password."""
    return re.sub(r"(?<=://)[^@/]*@", "...@", text)
