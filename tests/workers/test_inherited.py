"""Work inherits no variable that could lead it to another place than its folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from interlock.workers.config import SettingsError, read_settings
from interlock.workers.inherited import (
    PASSED,
    PYTHON_VARIABLES,
    REMOVED,
    inherited,
    python_variables,
    redirects,
    remove_redirects,
)

# A variable for each name that the table has.
NAMES = [name.replace("*", "X") for name in REMOVED]
KEPT = {
    "GIT_SSH_COMMAND": "ssh -i key",
    "GIT_ASKPASS": "/bin/ask",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_GLOBAL": "/home/me/.gitconfig",
    "GIT_AUTHOR_NAME": "me",
    "GIT_COMMITTER_EMAIL": "me@example.org",
    "GIT_ALLOW_PROTOCOL": "https",
    "PATH": os.environ["PATH"],
    "VIRTUAL_ENV": "/home/me/venv",
    "MY_GIT_DIR": "/home/me",
}
REDIRECTS_OF_GIT = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_QUARANTINE_PATH"),
    *("GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"),
    *("GIT_EDITOR", "GIT_CEILING_DIRECTORIES", "GIT_LFS_SKIP_SMUDGE", "GIT_TEMPLATE_DIR"),
)
# These start a program of Interlock, or its store, with the variables of their own process.
OF_INTERLOCK = {
    "interlock/workers/engine/isolation.py",
    "interlock/workers/gateways/server.py",
    "interlock/workers/processes/module_server.py",
    "interlock/workers/processes/agent/watchdog_client.py",
}


@pytest.fixture(autouse=True)
def shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have been started in a shell that has every variable of the table."""
    for name in (*NAMES, *REDIRECTS_OF_GIT):
        monkeypatch.setenv(name, "elsewhere")
    for name, value in KEPT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(PASSED, raising=False)


def test_work_inherits_what_says_how_and_not_what_says_where() -> None:
    found = inherited()

    assert "elsewhere" not in found.values()
    assert {name: found.get(name) for name in KEPT} == KEPT
    assert {name for name in REDIRECTS_OF_GIT if not redirects(name)} == set()


def test_what_a_user_has_set_on_purpose_is_passed_on_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PASSED, "CARGO_TARGET_DIR, MAKEFLAGS")

    passed = {name for name, value in inherited().items() if value == "elsewhere"}

    assert passed == {"CARGO_TARGET_DIR", "MAKEFLAGS"}
    remove_redirects()
    assert {*passed, *PYTHON_VARIABLES} == {n for n, v in os.environ.items() if v == "elsewhere"}


def test_the_setting_is_refused_for_what_leads_git_to_another_repository() -> None:
    assert read_settings({PASSED: "CPATH, GOWORK"}).pass_variables == ("CPATH", "GOWORK")
    for wrong in ("GIT_DIR", "GOWORK,GIT_INDEX_FILE", "A-B", "NAME=value"):
        with pytest.raises(SettingsError, match=r"cannot be passed on: name variables"):
            read_settings({PASSED: wrong})


def test_a_process_that_runs_capabilities_loses_them_and_still_finds_interlock() -> None:
    remove_redirects()

    assert python_variables() == dict.fromkeys(PYTHON_VARIABLES, "elsewhere")
    assert {name for name in os.environ if redirects(name)} == {*PYTHON_VARIABLES}
    assert os.environ["GIT_SSH_COMMAND"] == KEPT["GIT_SSH_COMMAND"]


def test_every_program_is_started_with_an_environment_but_those_of_interlock() -> None:
    """A call without an environment would hand on all variables of this process."""
    root = Path(__file__).parents[2]
    start = re.compile(
        r"(?<!self\.)(?<!supervisor\.)(?<!check\.)(?<!def )"
        r"\b(?:Popen|subprocess\.run|process_group|run_command|run_contained|start_bound)\("
        r"(?P<arguments>(?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)"
    )
    careless = {
        file.relative_to(root).as_posix()
        for file in (root / "interlock").rglob("*.py")
        for call in start.finditer(file.read_text("utf-8"))
        if not re.search(r"\benv(?:ironment)?\b", call["arguments"])
    }

    assert careless == OF_INTERLOCK
