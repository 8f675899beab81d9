"""Commands find the deployment of `interlock up` by its file, and nothing else by it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import Field

from interlock.workers.config import (
    SettingsError,
    SystemSettings,
    environment_without_settings,
    read_settings,
)
from interlock.workers.ops.home import lock_home
from interlock.workers.up_file import api_of_up, local_settings, telling
from tests.known_systems import settings_with
from tests.workers.sixth_system import FILES


def test_where_nothing_runs_an_error_says_how_to_start_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SettingsError, match="nothing runs here: start it with `make up`"):
        local_settings({})
    with pytest.raises(SettingsError, match=f"nothing runs in {tmp_path}/x, which INTERLOCK_HOME"):
        local_settings({"INTERLOCK_HOME": "x"})


@pytest.fixture
def running(tmp_path: Path) -> Iterator[None]:
    """Lock the home in `tmp_path`, as `interlock up` does while it runs there."""
    lock = lock_home(tmp_path)
    yield
    os.close(lock)


def test_the_store_that_up_started_is_found(tmp_path: Path, running: None) -> None:
    del running
    file = tmp_path / "up.json"
    written = {"store_url": "redis://127.0.0.1:1/0", "capabilities": "a", "capabilities_root": "/b"}
    file.write_text(json.dumps(written))
    home = {"INTERLOCK_HOME": str(tmp_path)}

    found = local_settings(home)
    named = local_settings({**home, "INTERLOCK_STORE_URL": "redis://127.0.0.1:2/0"})
    overridden = local_settings({**home, "INTERLOCK_CAPABILITIES": "b"})

    assert (found.store_url, found.capabilities) == ("redis://127.0.0.1:1/0", "a")
    assert (named.store_url, named.capabilities) == ("redis://127.0.0.1:2/0", None)
    assert (overridden.store_url, overridden.capabilities) == ("redis://127.0.0.1:1/0", "b")
    assert (found.capabilities_root, overridden.capabilities_root) == (Path("/b"), Path())


FROM_ELSEWHERE = {
    "store_url": "redis://127.0.0.1:1/0",
    "capabilities": "theirs",
    "systems": "theirs",
    "capabilities_root": "/theirs",
}


@pytest.mark.parametrize("variable", ["CAPABILITIES", "SYSTEMS"])
def test_modules_are_those_of_up_or_of_the_command_unless_both_have_one_folder(
    tmp_path: Path, running: None, variable: str
) -> None:
    del running
    (tmp_path / "up.json").write_text(json.dumps(FROM_ELSEWHERE))
    named = {"INTERLOCK_HOME": str(tmp_path), f"INTERLOCK_{variable}": "mine"}
    field = variable.lower()

    in_another_folder = local_settings(named)
    in_the_same = local_settings({**named, "INTERLOCK_CAPABILITIES_ROOT": "/theirs"})

    assert in_another_folder.model_fields_set == {"home", "store_url", field}
    defaults = settings_with().model_dump(include={"capabilities", "systems"})
    theirs = {"capabilities": "theirs", "systems": ("theirs",)}
    mine = {field: getattr(in_another_folder, field)}
    assert in_another_folder.model_dump(include={*theirs}) == {**defaults, **mine}
    assert in_the_same.model_dump(include={*theirs}) == {**theirs, **mine}
    assert in_the_same.capabilities_root == Path("/theirs")


def test_a_file_of_up_names_no_modules_where_no_up_runs(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    lock = lock_home(other)
    (tmp_path / "up.json").write_text(json.dumps(FROM_ELSEWHERE))

    for link in (None, "up.lock"):
        if link:  # a repository can hold a link to the lock of an `up` that runs elsewhere
            (tmp_path / link).symlink_to(other / link)
        found = local_settings({"INTERLOCK_HOME": str(tmp_path)})
        assert found.model_fields_set == {"home", "store_url"}
    os.close(lock)


def test_a_file_of_another_user_is_refused(
    tmp_path: Path, running: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del running
    (tmp_path / "up.json").write_text(json.dumps(FROM_ELSEWHERE))
    this_user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: this_user + 1)

    with pytest.raises(SettingsError, match=f"belongs to another user .id {this_user}.: run the"):
        local_settings({"INTERLOCK_HOME": str(tmp_path)})


def test_a_lock_or_a_file_of_another_user_is_of_no_running_up(
    tmp_path: Path, running: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del running
    api = "http://127.0.0.1:1"
    with telling(settings_with(store_url="unix:///nowhere"), tmp_path, api):
        assert api_of_up(tmp_path) == api
        this_user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: this_user + 1)
        assert api_of_up(tmp_path) == ""


def test_a_start_of_up_removes_the_file_that_it_finds(tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text(json.dumps(FROM_ELSEWHERE))

    os.close(lock_home(tmp_path))

    assert not (tmp_path / "up.json").exists()


@pytest.mark.parametrize("content", ["", "{", "[1]", "7", '{"store_url": 1}', '{"colour": "blue"}'])
def test_a_damaged_file_of_up_is_reported(tmp_path: Path, content: str) -> None:
    (tmp_path / "up.json").write_text(content)

    with pytest.raises(SettingsError, match=r"up\.json cannot be read"):
        local_settings({"INTERLOCK_HOME": str(tmp_path)})


def test_a_misspelt_variable_is_no_fault_of_the_file_of_up_and_its_value_is_not_shown(
    tmp_path: Path,
) -> None:
    (tmp_path / "up.json").write_text('{"store_url": "redis://127.0.0.1:1/0"}')
    misspelt = {"INTERLOCK_MODEL_API_KEYS": "sk-hush"}

    with pytest.raises(SettingsError, match="INTERLOCK_MODEL_API_KEYS is no setting") as refusal:
        local_settings({"INTERLOCK_HOME": str(tmp_path), **misspelt})

    assert "hush" not in str(refusal.value)
    assert "up.json" not in str(refusal.value)


def test_another_terminal_finds_the_systems_that_up_was_started_with(
    tmp_path: Path, running: None
) -> None:
    del running
    settings = settings_with(
        home=tmp_path, store_url="redis://127.0.0.1:1/0", systems=("billing", "parcels")
    )

    with telling(settings, tmp_path):
        found = local_settings({"INTERLOCK_HOME": str(tmp_path)})

    assert found.systems == ("billing", "parcels")


class GlossarySettings(SystemSettings):
    """The settings of a system that does not come with Interlock."""

    glossary_file: Path | None = None
    glossary_key: str = Field("", repr=False)


def test_another_terminal_has_the_settings_of_the_systems_of_others_but_no_secret_of_them(
    tmp_path: Path, running: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del running
    monkeypatch.chdir(tmp_path)
    variables = {"INTERLOCK_STORE_URL": "redis://127.0.0.1:1/0", "INTERLOCK_SYSTEMS": "glossary"}
    own = {"INTERLOCK_GLOSSARY_FILE": "terms.txt", "INTERLOCK_GLOSSARY_KEY": "hush"}
    settings = read_settings({**variables, **own})
    settings.admit([GlossarySettings])
    home = {"INTERLOCK_HOME": str(tmp_path)}

    with telling(settings, tmp_path):
        found = local_settings(home)
        named = local_settings({**home, "INTERLOCK_GLOSSARY_FILE": "/own.txt"})

    assert dict(found.others) == {"glossary_file": str(tmp_path / "terms.txt")}
    assert named.of(GlossarySettings).glossary_file == Path("/own.txt")


def test_another_terminal_has_the_commands_of_the_systems_of_up(
    tmp_path: Path, running: None
) -> None:
    del running
    for name, text in FILES.items():
        file = tmp_path / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    settings = settings_with(
        home=tmp_path,
        store_url="redis://127.0.0.1:1/0",
        systems=("tasks", "parcels"),
        capabilities_root=tmp_path / "project",
    )
    home = {**environment_without_settings(), "INTERLOCK_HOME": str(tmp_path)}

    def helped(*words: str) -> str:
        command = [sys.executable, "-m", "interlock", *words, "--help"]
        return subprocess.run(command, env=home, check=False, capture_output=True, text=True).stdout

    with telling(settings, tmp_path):
        found = [helped(), helped("parcel")]

    assert ["Parcels." in text for text in found] == [True, True]
    assert "Parcels." not in helped()


def test_another_terminal_has_the_host_of_up_unless_it_names_one(tmp_path: Path) -> None:
    settings = settings_with(home=tmp_path, store_url="redis://127.0.0.1:1/0", host="x")
    home = {"INTERLOCK_HOME": str(tmp_path)}

    with telling(settings, tmp_path):
        found = local_settings(home)
        named = local_settings({**home, "INTERLOCK_HOST": "y"})

    assert (found.host, named.host) == ("x", "y")


def test_a_command_in_another_folder_finds_the_capabilities_of_up(
    tmp_path: Path, running: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del running
    home, elsewhere = tmp_path, tmp_path / "elsewhere"
    elsewhere.mkdir()
    settings = settings_with(home=home, store_url="unix:///nowhere", capabilities="listed.toml")

    monkeypatch.chdir(tmp_path)
    with telling(settings, home):
        monkeypatch.chdir(elsewhere)
        found = local_settings({"INTERLOCK_HOME": str(home)})

    assert (found.capabilities, found.capabilities_root) == ("listed.toml", tmp_path)


def test_commands_act_on_the_deployment_of_up_whatever_tells_it_from_others(
    tmp_path: Path, running: None
) -> None:
    del running
    settings = settings_with(
        home=tmp_path,
        store_url="redis://127.0.0.1:1/0",
        broker_url="redis://127.0.0.1:1/1",
        prefix="team_b",
        namespace="b",
        enqueue="plain",
        roles=("coder",),
        records_max=7,
        queue_slots={"gpu": 2},
        cards=Path("cards"),
        lease_s=1.5,
    )

    with telling(settings, tmp_path):
        found = local_settings({"INTERLOCK_HOME": str(tmp_path), "INTERLOCK_LEASE_S": "3"})

    told = settings.model_fields_set - {"lease_s", "cards"}
    assert found.model_dump(include=told) == settings.model_dump(include=told)
    assert (found.lease_s, found.cards) == (3, Path("cards").absolute())


def test_no_secret_that_commands_do_without_is_in_the_file_and_no_other_user_reads_it(
    tmp_path: Path,
) -> None:
    settings = settings_with(
        store_url="redis://:pw@127.0.0.1:1/0",
        api_token="hush",
        model_api_key="hush",
        oidc_client_secret="hush",
    )
    (tmp_path / "up.json").touch(mode=0o644)

    with telling(settings, tmp_path):
        assert (tmp_path / "up.json").stat().st_mode & 0o777 == 0o600
        assert "hush" not in (tmp_path / "up.json").read_text()
    assert not (tmp_path / "up.json").exists()
