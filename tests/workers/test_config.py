"""Settings are validated, named in every error, and all of them are documented."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import Field, model_validator

from interlock.systems import NAMES
from interlock.systems.tasks.machines.trust import Trust
from interlock.systems.tasks.settings import TaskSettings
from interlock.systems.threads.tier import Tier
from interlock.workers.client import Client
from interlock.workers.config import (
    PREFIX,
    Settings,
    SettingsError,
    SystemSettings,
    environment_without_settings,
    read_settings,
    with_systems,
)
from interlock.workers.engine.work_secrets import secrets_of
from interlock.workers.processes.sandbox import _hidden_by
from interlock.workers.setting_values import as_variable
from tests.known_systems import settings_with

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| `(INTERLOCK_\w+)` \| (.+?) \|", PAGE, re.MULTILINE))

# In one process, as these modules share most of what they import.
IMPORT_ENTRIES = """
from importlib import import_module

for entry in ("main", "intake", "flower"):
    try:
        import_module(f"interlock.workers.{entry}")
    except SystemExit as end:
        print(end.code)
"""
IN_WORDS = (
    "none",
    "the store",
    "per effect",
    "the host's name",
    "the home, or the user's state folder",
    "all of Interlock",
    "caches and state of agents",
)


def test_without_variables_everything_has_its_default() -> None:
    settings = read_settings({})

    assert settings.store_url is None
    assert settings.fused


def test_no_store_is_assumed_where_none_is_named() -> None:
    settings = read_settings({})

    for opened in (lambda: settings.store, lambda: settings.broker, lambda: Client(settings)):
        with pytest.raises(SettingsError, match="INTERLOCK_STORE_URL is not set"):
            opened()


def test_no_process_of_celery_starts_without_a_store() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ENTRIES],
        env=environment_without_settings(),
        check=True,
        capture_output=True,
        text=True,
    )

    # Python ends with code 1 and this line on stderr if such an exit is not caught.
    refused = "interlock: INTERLOCK_STORE_URL is not set: name the store there"
    assert done.stdout.splitlines() == [refused] * 3


def test_a_variable_is_read_by_its_fields_name() -> None:
    settings = read_settings({"INTERLOCK_POLL_S": "2.5", "INTERLOCK_TASK_EVENTS": "false"})

    assert (settings.poll_s, settings.task_events) == (2.5, False)


def test_an_unknown_variable_is_an_error_that_names_it() -> None:
    with pytest.raises(SettingsError, match="INTERLOCK_STOREURL is no setting") as refusal:
        read_settings({"INTERLOCK_STOREURL": "redis://:secret@x"})
    assert "secret" not in str(refusal.value)


def test_an_empty_variable_counts_as_unset_and_other_programs_variables_are_ignored() -> None:
    variables = {"INTERLOCK_MODEL": "", "EXAMPLE_DESK": "/desk", "PATH": "/bin", "interlock_x": "1"}

    assert read_settings(variables).model_fields_set == set()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STORE_URL", "localhost:6379"),
        ("STORE_URL", "http://localhost"),
        ("PREFIX", "a:b"),
        ("PREFIX", "{x}"),
        ("NAMESPACE", "a b"),
        ("ENQUEUE", "sometimes"),
        ("CONCURRENCY", "0"),
        ("CONCURRENCY", "many"),
        ("LEASE_S", "0"),
        ("POLL_S", "-1"),
        ("POLL_S", "inf"),
        ("BROKER_URL", "nonsense"),
        ("SWEEP_BATCH", "1001"),
        ("MODEL_ATTEMPTS_MAX", "0"),
        ("TASK_EVENTS", "perhaps"),
        ("HOST", "a b"),
        ("METRICS_ADDRESS", "localhost"),
        ("METRICS_ADDRESS", "[::1]:65536"),
        ("QUEUE_SLOTS", "gpu=1.0"),
        ("QUEUE_SLOTS", "gpu=1_0"),
    ],
)
def test_a_wrong_value_is_named_with_its_variable(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        read_settings({f"INTERLOCK_{name}": value})

    assert f"INTERLOCK_{name}={value!r}" in str(refusal.value)


def test_an_error_shows_no_password() -> None:
    with pytest.raises(SettingsError) as refusal:
        read_settings({"INTERLOCK_STORE_URL": "redi://user:hush@host"})

    assert "hush" not in str(refusal.value)
    assert "INTERLOCK_STORE_URL" in str(refusal.value)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read_settings({}).prefix = "other"


@pytest.mark.parametrize(
    ("values", "fused"),
    [
        ({}, True),
        ({"store_url": "unix:///run/store.sock"}, True),
        ({"enqueue": "plain"}, False),
        ({"store_url": "redis://h:1/0", "broker_url": "redis://h:1/0"}, True),
        ({"store_url": "redis://h:1/0", "broker_url": "redis://h:1/1"}, False),
        ({"broker_url": "amqp://guest@host//"}, False),
        ({"store_url": "redis+cluster://h:1", "broker_url": "redis://h:2"}, False),
    ],
)
def test_a_commit_pushes_messages_only_into_its_own_server(
    values: dict[str, str], *, fused: bool
) -> None:
    assert Settings.model_validate(values).fused is fused


def test_fused_with_two_servers_is_refused() -> None:
    with pytest.raises(SettingsError, match="INTERLOCK_ENQUEUE='fused'"):
        read_settings({"INTERLOCK_ENQUEUE": "fused", "INTERLOCK_BROKER_URL": "amqp://guest@host//"})


@pytest.mark.parametrize(
    ("store", "broker"),
    [
        ("redis+sentinel://me:hush@h:1/service", ""),
        ("redis+cluster://me:hush@h:1", ""),
        ("redis+cluster://me:hush@h:1", "redis+cluster://me:hush@h:1"),
        ("redis://h:1", "sentinel://me:hush@h:1"),
    ],
)
def test_a_broker_behind_sentinel_or_cluster_is_refused(store: str, broker: str) -> None:
    with pytest.raises(SettingsError, match="set INTERLOCK_BROKER_URL to one server") as refusal:
        read_settings({"INTERLOCK_STORE_URL": store, "INTERLOCK_BROKER_URL": broker})

    assert "hush" not in str(refusal.value)


def test_every_setting_is_documented_with_its_default() -> None:
    settings = settings_with()
    fields = type(settings).model_fields

    assert set(ROWS) == {f"{PREFIX}{name.upper()}" for name in fields}
    for name, field in fields.items():
        documented = ROWS[f"{PREFIX}{name.upper()}"]
        if documented.startswith("`"):
            default = getattr(settings, name)
            shown = f"{default:g}" if isinstance(default, float) and default < 1e6 else default
            shown = int(default) if isinstance(default, float) and default >= 1e5 else shown
            shown = str(shown).lower() if isinstance(default, bool) else shown
            assert documented == f"`{shown}`", name
        else:
            assert field.default is None or field.default_factory, name
            assert documented in IN_WORDS, name


def test_worktrees_are_in_the_home_or_where_that_is_in_a_project_in_the_state_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    one, other = Settings(home=tmp_path / ".interlock"), Settings(home=tmp_path / ".interlock/b")
    prefixed, chosen = Settings(home=one.home, prefix="x"), Settings(worktrees=Path("w"))

    assert Settings(home=tmp_path / "a").worktree_folder.parent == tmp_path / "a" / "worktrees"
    assert one.worktree_folder.parent == tmp_path / "interlock"
    assert len({each.worktree_folder for each in (one, other, prefixed)}) == 3
    assert chosen.worktree_folder.parent == Path("w").absolute()
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert one.worktree_folder.parent == Path.home() / ".local" / "state" / "interlock"


def test_a_setting_is_read_back_from_its_variable() -> None:
    settings = settings_with(
        model_prices={"m": (2.5, 10.0), "n": (0.0, 0.0)},
        tier_models={Tier.LOCAL_FAST: "m"},
        queue_slots={"a": 1, "b": 2},
        files_by_trust={Trust.UNTRUSTED: 0, Trust.TRUSTED: 20},
        escalations={"consent": (600.0, "ann"), "*": (60.5, "operator")},
        roles=("coder", "writer"),
        systems=(*NAMES, "billing", "parcels.of.mine"),
        lease_s=1.5,
        task_events=False,
    )
    variables = {
        f"INTERLOCK_{name.upper()}": as_variable(getattr(settings, name))
        for name in settings.model_fields_set
    }

    found = read_settings(variables)

    assert [getattr(found, name) for name in settings.model_fields_set] == [
        getattr(settings, name) for name in settings.model_fields_set
    ]


def test_the_settings_of_a_system_that_does_not_run_are_left_out() -> None:
    variables = {"INTERLOCK_STALL_S": "7", "INTERLOCK_QUEUE_SLOTS": "a=1"}

    every = read_settings(variables)
    of_tasks = read_settings({**variables, "INTERLOCK_SYSTEMS": "tasks,refund.py"})
    of_none = read_settings({**variables, "INTERLOCK_SYSTEMS": "refund.py"})

    assert [each.of(TaskSettings).stall_s for each in (every, of_tasks, of_none)] == [7, 7, 300]
    assert of_tasks.model_fields_set == {"systems", "stall_s"}
    assert with_systems(of_none, ["tasks"]).systems == ("refund.py", "tasks")
    with pytest.raises(SettingsError, match="INTERLOCK_STALS_S is no setting"):
        read_settings({"INTERLOCK_SYSTEMS": "refund.py", "INTERLOCK_STALS_S": "7"}).admit([])


def test_a_system_that_is_added_brings_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_STALL_S", "7")
    monkeypatch.setenv("INTERLOCK_SYSTEMS", "refund.py")

    assert with_systems(read_settings(), ["tasks"]).of(TaskSettings).stall_s == 7


def test_a_wrong_setting_of_a_system_that_is_added_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_STALL_S", "soon")
    monkeypatch.setenv("INTERLOCK_SYSTEMS", "refund.py")

    with pytest.raises(SettingsError, match="INTERLOCK_STALL_S='soon'"):
        with_systems(read_settings(), ["tasks"])


def test_the_file_of_a_system_that_does_not_run_stays_hidden_from_agents() -> None:
    variables = {"INTERLOCK_WEBHOOKS": "/hooks.json", "INTERLOCK_SANDBOX_HIDDEN": "/other"}

    found = read_settings({**variables, "INTERLOCK_SYSTEMS": "tasks"})

    assert found.sandbox_hidden == ("/other", "/hooks.json")
    assert read_settings(variables).sandbox_hidden == ("/other",)


class GlossarySettings(SystemSettings):
    """The settings of a system that does not come with Interlock."""

    glossary_terms: dict[str, int] = Field(default_factory=dict, examples=["term=uses"])
    glossary_file: Path | None = None
    glossary_key: str = Field("", repr=False)

    HIDDEN_FILES = ("glossary_file",)


OTHERS = {
    "INTERLOCK_SYSTEMS": "tasks,glossary",
    "INTERLOCK_GLOSSARY_TERMS": "world=2,hello=1",
    "INTERLOCK_GLOSSARY_FILE": "/terms.txt",
    "INTERLOCK_GLOSSARY_KEY": "hush-hush-42",
}


def test_the_settings_of_a_system_of_others_are_read_hidden_and_kept_secret_as_ours(
    tmp_path: Path,
) -> None:
    settings = read_settings({**OTHERS, "INTERLOCK_HOME": str(tmp_path)})

    settings.admit([GlossarySettings])

    found = settings.of(GlossarySettings)
    assert (found.glossary_terms, found.glossary_file) == (
        {"world": 2, "hello": 1},
        Path("/terms.txt"),
    )
    assert "hush-hush-42" in secrets_of(settings)
    assert Path("/terms.txt") in {*_hidden_by(settings)}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"INTERLOCK_GLOSARY_FILE": "/x"}, "INTERLOCK_GLOSARY_FILE is no setting"),
        ({"INTERLOCK_GLOSSARY_TERMS": "world"}, "INTERLOCK_GLOSSARY_TERMS='world': .*term=uses"),
    ],
)
def test_a_wrong_setting_of_a_system_of_others_is_told_as_one_of_ours(
    wrong: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        read_settings({**OTHERS, **wrong}).admit([GlossarySettings])


class SecretSettings(SystemSettings):
    """Settings with a secret that has a rule."""

    glossary_key: str = Field("", repr=False, min_length=20)


def test_a_wrong_secret_of_a_system_of_others_is_named_and_not_shown() -> None:
    settings = read_settings({"INTERLOCK_SYSTEMS": "g", "INTERLOCK_GLOSSARY_KEY": "hush-hush-42"})

    with pytest.raises(SettingsError, match=r"INTERLOCK_GLOSSARY_KEY: .* 20 char") as refusal:
        settings.admit([SecretSettings])

    assert "hush" not in str(refusal.value)


class OrderedSettings(SystemSettings):
    """Settings of which one has to be more than another."""

    glossary_key: str = Field("", repr=False)

    @model_validator(mode="after")
    def _order(self) -> OrderedSettings:
        raise ValueError("INTERLOCK_GLOSSARY_TERMS must be more than INTERLOCK_GLOSSARY_MIN")


def test_a_check_of_several_settings_is_told_in_its_own_words_without_their_values() -> None:
    settings = read_settings({"INTERLOCK_SYSTEMS": "g", "INTERLOCK_GLOSSARY_KEY": "hush-hush-42"})

    with pytest.raises(SettingsError) as refusal:
        settings.admit([OrderedSettings])

    said = "settings: INTERLOCK_GLOSSARY_TERMS must be more than INTERLOCK_GLOSSARY_MIN"
    assert str(refusal.value) == said
