"""The settings: read once from the variables INTERLOCK_*, validated, and passed down."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    BaseModel,
    Field,
    NonNegativeFloat,
    PrivateAttr,
    ValidationError,
    create_model,
    field_validator,
)

from interlock.kernel.payload import Word
from interlock.systems import NAMES, module_of
from interlock.workers.setting_values import Seconds, VariableModel, names_in, shown_value

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
# In these, agents keep how they were signed in, and tools keep what they downloaded.
SANDBOX_WRITABLE = (
    *("~/.cache", "~/.claude", "~/.claude.json", "~/.codex", "~/.gemini", "~/.npm", "~/.nuget"),
    *("~/.cargo/git", "~/.cargo/registry", "~/.gradle", "~/.m2", "~/go/pkg"),
)
LogFormat = Literal["console", "json"]


S = TypeVar("S", bound=BaseModel)
NO_SETTING = "is no setting; see docs/configuration.md"


class SetupError(Exception):
    """The deployment or its settings are wrong. The message says what a person has to change."""


class SettingsError(SetupError, ValueError):
    """A setting is missing or wrong. The message names the variable, its value and what to do."""


class SystemSettings(VariableModel):
    """The base of the settings of one system. Field `x` is read from the variable INTERLOCK_X.

    Its type says how it is written: a tuple as `a,b`, a mapping as `name=value,name=value`. The
    value of a field with `repr=False` is a secret, which is shown nowhere. `HIDDEN_FILES` are the
    fields that name files which the commands of agents must not see.

        class TranslationSettings(SystemSettings):
            languages: tuple[str, ...] = ("de", "fr")  # INTERLOCK_LANGUAGES=de,fr
    """


class Settings(VariableModel):
    """The settings of a deployment. Field `x` is read from the variable INTERLOCK_X.

    Those of the systems that it runs are in the same object: `of` returns them.
    """

    HIDDEN_FILES: ClassVar[tuple[str, ...]] = ("archive", "cards")

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
    # The role of each such group.
    oidc_roles: dict[str, str] = Field(default_factory=dict, examples=["group=role"])

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
    archive: Path | None = None

    model: str = "embedded:wordllama"
    model_base_url: str | None = None
    model_api_key: Annotated[str | None, Field(repr=False)] = None
    # In dollars for a million tokens of input and of output.
    model_prices: dict[str, tuple[NonNegativeFloat, NonNegativeFloat]] = Field(
        default_factory=dict, examples=["model=INPUT/OUTPUT"]
    )
    model_timeout_s: Seconds = 120.0
    model_attempts_max: Annotated[int, Field(ge=1, le=20)] = 4
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
    escalations: dict[str, tuple[Seconds, str]] = Field(
        default_factory=dict, examples=["kind=SECONDS/NAME"]
    )
    public_url: Annotated[str | None, Field(pattern=r"^https?://[^\s/]+[^\s]*$")] = None
    home: Path = Path(PROJECT_HOME)
    worktrees: Path | None = None  # by default in the home, or in the user's XDG state folder
    alive: Path | None = None  # a worker or beat touches this file while it works, for probes
    # Variables that work inherits although they could lead it to another place.
    pass_variables: tuple[str, ...] = Field(default_factory=tuple)
    agents_max: Annotated[int, Field(ge=0, le=1_000)] = 4  # agents at once on this computer
    sandbox: Literal["auto", "required", "off"] = "auto"  # of agents and other commands for work
    sandbox_writable: tuple[str, ...] = Field(default_factory=lambda: SANDBOX_WRITABLE)
    sandbox_hidden: tuple[str, ...] = Field(default_factory=tuple)
    agent_log_bytes_max: Annotated[int, Field(ge=4_096)] = 8 * 1024 * 1024
    host: Word = Field(default_factory=socket.gethostname, validate_default=True)

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

    # The variables of systems that do not come with Interlock, and the models of their settings.
    _others: dict[str, str] = PrivateAttr(default_factory=dict)
    _models: list[type[SystemSettings]] = PrivateAttr(default_factory=list)

    def model_post_init(self, others: Any, /) -> None:
        """Keep the variables that only systems from outside Interlock can check."""
        self._others.update(others or {})

    def of(self, part: type[S]) -> S:
        """Return the settings of a system; their defaults if the deployment does not run it."""
        if isinstance(self, part):
            return self
        values = {name: value for name, value in self._others.items() if name in part.model_fields}
        secrets = {name for name, field in part.model_fields.items() if not field.repr}
        return _checked(lambda: part(**values), secrets)

    @property
    def others(self) -> Mapping[str, str]:
        """The values of variables of systems that do not come with Interlock, by their fields."""
        return MappingProxyType(self._others)

    @property
    def parts(self) -> tuple[SystemSettings, ...]:
        """The settings of the systems that do not come with Interlock, once `admit` knows them."""
        return tuple(self.of(model) for model in self._models)

    def admit(self, models: Iterable[type[SystemSettings]]) -> None:
        """Read the settings of systems that do not come with Interlock. Raises SettingsError."""
        self._models[:] = models
        fields = {name for part in self.parts for name in type(part).model_fields}
        if unknown := sorted(self._others.keys() - fields):
            raise SettingsError(f"settings: {_variable(unknown[0])} {NO_SETTING}")

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


@cache
def settings_of(systems: tuple[str, ...]) -> type[Settings]:
    """Return the model of the settings of a deployment that runs these systems."""
    parts = [_part(name) for name in NAMES if name in systems]
    bases: tuple[Any, ...] = (Settings, *(part for part in parts if part))
    return create_model("Settings", __base__=bases) if len(bases) > 1 else Settings


def _part(name: str) -> type[SystemSettings] | None:
    """Import the model of the settings of a system that comes with Interlock, if it has any."""
    module, _, attribute = str(import_module(module_of(name)).SYSTEM.settings).partition(":")
    found: type[SystemSettings] | None = (
        getattr(import_module(module), attribute) if module else None
    )
    return found


def setting_names() -> Iterable[str]:
    """Return the fields of the settings of every system that comes with Interlock."""
    return settings_of(NAMES).model_fields


def with_systems(settings: Settings, names: Sequence[str]) -> Settings:
    """Return settings with these systems added. A file's path becomes absolute."""
    if not names:
        return settings
    found = [str(Path(name).absolute()) if name.endswith(".py") else name for name in names]
    systems = tuple(dict.fromkeys((*settings.systems, *found)))
    known = {name: getattr(settings, name) for name in settings.model_fields_set}
    values = {**_values(os.environ), **settings.others, **known, "systems": systems}
    return validated_settings(values)


def read_settings(
    environment: Mapping[str, str] | None = None, *, is_final: bool = True
) -> Settings:
    """Read the settings. An unknown INTERLOCK_* variable is an error, as it is usually a typo.

    It may be of a system that does not come with Interlock: where one runs, `Settings.admit`
    refuses it. With `is_final=False` unknown variables are kept, as `up` may still name their
    system.
    """
    variables = os.environ if environment is None else environment
    settings = validated_settings(_values(variables), is_final=is_final)
    broker = settings.broker_url or settings.store_url or ""
    if broker.startswith(UNSUPPORTED_BROKERS):
        raise SettingsError(
            f"settings: {shown_value(broker)} cannot be the broker: messages cannot go "
            "through Sentinel or Cluster; set INTERLOCK_BROKER_URL to one server or RabbitMQ"
        )
    if settings.enqueue == "fused" and not settings.fused:
        raise SettingsError(
            "settings: INTERLOCK_ENQUEUE='fused' needs broker and store to be one Redis server and "
            "database; unset INTERLOCK_BROKER_URL or choose plain"
        )
    return settings


def _values(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the variables that can be settings, by the names of their fields."""
    others = {*PROCESS_VARIABLES, *CLAIM_VARIABLES, *variables.get(WORK_VARIABLES, "").split(",")}
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in variables.items()
        if name.startswith(PREFIX) and name not in others and value != ""
    }


def _checked(read: Callable[[], S], secrets: Container[str] = ()) -> S:
    """Return what reads settings. Raises SettingsError with every problem, without `secrets`."""
    try:
        return read()
    except ValidationError as refusal:
        errors = refusal.errors(include_url=False)
        problems = "; ".join(_problem(error, secrets) for error in errors)
        raise SettingsError(f"settings: {problems}") from None


def _problem(error: Mapping[str, Any], secrets: Container[str]) -> str:
    """Return what is wrong with a setting, or what a check of several settings says itself."""
    field: str | None = next(iter(error["loc"]), None)
    if field is None:
        return str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        return f"{_variable(field)} {NO_SETTING}"
    value = "" if field in secrets else f"={shown_value(error['input'])}"
    return f"{_variable(field)}{value}: {error['msg']}"


def _variable(field: str) -> str:
    return f"{PREFIX}{field}".upper()


def validated_settings(values: Mapping[str, Any], *, is_final: bool = True) -> Settings:
    """Return settings with these values; those of systems that do not run are left out.

    Where a system runs that does not come with Interlock, or may, it is left to `Settings.admit` to
    judge names that nobody here knows. A file that commands of agents must not see stays hidden
    from them, whatever runs. Raises SettingsError with every problem.
    """
    named = names_in(values.get("systems", NAMES))
    chosen = tuple(named) if isinstance(named, list | tuple) else NAMES
    model, known = settings_of(chosen), settings_of(NAMES)
    idle = values.keys() & (known.model_fields.keys() - model.model_fields.keys())
    judged = is_final and set(chosen) <= set(NAMES)
    others = set() if judged else values.keys() - known.model_fields.keys()
    fields = {name: one for name, one in values.items() if name not in idle | others}
    context = {name: values[name] for name in others}
    found = _checked(lambda: model.model_validate(fields, context=context))
    files = [str(values[name]) for name in sorted(idle & known.hidden_files())]
    hidden = (*found.sandbox_hidden, *files)
    return found.model_copy(update={"sandbox_hidden": hidden}) if files else found


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
