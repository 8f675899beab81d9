"""The file in which `interlock up` names its deployment to commands of the same user."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from interlock.systems import NAMES
from interlock.workers.config import (
    Settings,
    SettingsError,
    read_settings,
    setting_names,
    validated_settings,
)
from interlock.workers.files.private import PrivateFile

UP_FILE = "up.json"
LOCK_FILE = "up.lock"  # it is locked while an `interlock up` runs in its folder
# The token with which the user of `interlock up` calls its API.
TOKEN_FILE = "api.token"  # noqa: S105 - a name
# The same as a header for `curl -H @FILE`: any user can read what stands on a command line.
HEADER_FILE = "api.header"
API = "api"  # the name by which UP_FILE has the address of the API, which is no setting
# Which deployment a command acts on. Any file of this user may say that.
ADDRESS_SETTINGS = ("store_url", "broker_url", "prefix", "namespace", "enqueue", "host")
# Commands import what these settings name.
MODULE_SETTINGS = ("capabilities", "systems", "capabilities_root")
# What is about one process, or a secret that commands do without.
SETTINGS_NOT_TOLD = frozenset(
    {
        *("home", "alive", "concurrency", "metrics_address", "log_format", "traces"),
        *("api_url", "api_token", "auth", "api_rate", "model_base_url", "model_api_key"),
        *(name for name in Settings.model_fields if name.startswith("oidc_")),
    }
)


def _names_told() -> set[str]:
    """Return the names of the settings that UP_FILE may have."""
    return set(setting_names()) - SETTINGS_NOT_TOLD


def local_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings, with the store that they name or that `interlock up` started here.

    Raises SettingsError if there is neither.
    """
    settings = settings_here(environment)
    if settings.store_url is None:
        place = "here"
        if "home" in settings.model_fields_set:
            place = f"in {settings.home.absolute()}, which INTERLOCK_HOME names"
        raise SettingsError(
            f"nothing runs {place}: start it with `make up` or `interlock up`, or set "
            "INTERLOCK_STORE_URL"
        )
    return settings


def settings_here(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. If they name no store, add those of `interlock up`, if it runs here."""
    settings = read_settings(environment, is_final=False)
    file = settings.home / UP_FILE
    if settings.store_url is not None or not file.exists():
        return read_settings(environment)
    _refuse_foreign(file)
    try:
        named = settings.model_dump(exclude_unset=True)
        values, _ = _told_by_up(file)
        # All modules are in one folder: that of this command if it names any, else that of `up`.
        folder = Path(values.get("capabilities_root", "")).absolute()
        is_other = folder != settings.capabilities_root.absolute()
        named_here = bool(named.keys() & {"capabilities", "systems"})
        if not _is_of_running_up(file):
            values = {name: values[name] for name in ADDRESS_SETTINGS if name in values}
        elif named_here and is_other:
            others = values.keys() - _names_told()  # of the systems that are left out
            left_out = {*MODULE_SETTINGS, *others}
            values = {name: value for name, value in values.items() if name not in left_out}
        validated_settings(values, is_final=False)  # so that a wrong one is told of the file
    except (OSError, TypeError, ValueError) as refusal:
        raise SettingsError(
            f"{file} cannot be read ({refusal}); remove it or name a store"
        ) from None
    return validated_settings({**values, **settings.others, **named})


@contextmanager
def telling(settings: Settings, home: Path, api: str = "") -> Iterator[None]:
    """Tell commands with this home the settings of its deployment, for as long as it runs.

    `api` is the address of its API.
    """
    file = home / UP_FILE
    PrivateFile(file).write(json.dumps(_told(settings) | ({API: api} if api else {})) + "\n")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def api_of_up(home: Path) -> str:
    """Return the address of the API of the `interlock up` that runs in a home, '' without one."""
    file = home / UP_FILE
    if not (file.exists() and _is_of_running_up(file)):
        return ""
    try:
        return _told_by_up(file)[1]
    except (OSError, TypeError, ValueError):
        return ""


def new_token(home: Path) -> str:
    """Make the token with which the user of `interlock up` calls its API; it ends with `up`."""
    token = secrets.token_urlsafe(32)
    PrivateFile(home / TOKEN_FILE).write(f"{token}\n")
    PrivateFile(home / HEADER_FILE).write(f"Authorization: Bearer {token}\n")
    return token


def read_token(home: Path) -> str:
    """Return the token of the `interlock up` that runs in a home. Raises SettingsError."""
    file = home.absolute() / TOKEN_FILE
    with suppress(OSError):
        if file.stat().st_uid == os.getuid() and (token := file.read_text("utf-8").strip()):
            return token
    raise SettingsError(f"there is no {file} of yours, which `interlock up` writes at its start")


def _told(settings: Settings) -> dict[str, Any]:
    # What a command on this computer submits is cleaned up by the workers with this name.
    names = {"store_url", "host"} | settings.model_fields_set & _names_told()
    if names & {"capabilities", "systems"}:
        names.add("capabilities_root")
    # A command may run in another folder.
    paths = {
        name: value.absolute()
        for name in names
        if isinstance(value := getattr(settings, name), Path)
    }
    shown = settings.model_copy(update=paths).model_dump(mode="json", include=names)
    return shown | _shown_of_others(settings)


def _shown_of_others(settings: Settings) -> dict[str, str]:
    """Return the settings of systems that do not come with Interlock: those that are no secrets."""
    shown: dict[str, str] = {}
    for part in settings.parts:
        for name in type(part).model_fields.keys() & settings.others.keys():
            value = getattr(part, name)
            written = str(value.absolute()) if isinstance(value, Path) else settings.others[name]
            shown |= {name: written} if type(part).model_fields[name].repr else {}
    return shown


def _refuse_foreign(file: Path) -> None:
    """Raise SettingsError for a file of another user, who would choose where commands act."""
    owner = file.stat().st_uid
    if owner != os.getuid():
        raise SettingsError(
            f"{file} belongs to another user (id {owner}): run the command as that user, or name a "
            "store or a home of your own (INTERLOCK_STORE_URL, INTERLOCK_HOME)"
        )


def _told_by_up(file: Path) -> tuple[dict[str, Any], str]:
    """Return what `interlock up` tells commands: settings, and the address of its API.

    Raises ValueError if it is more than that: another file could name an API to which a command
    would show its token.
    """
    found = dict(json.loads(file.read_text("utf-8")))
    api = str(found.pop(API, ""))
    unknown = sorted(found.keys() - _names_told())
    # Systems that do not come with Interlock have settings of their own.
    named = found.get("systems", [])
    has_others = not isinstance(named, list) or not set(named) <= set(NAMES)
    if unknown and not (has_others and SETTINGS_NOT_TOLD.isdisjoint(unknown)):
        raise ValueError(f"`interlock up` does not write {unknown[0]!r}")
    return found, api


def _is_of_running_up(file: Path) -> bool:
    """Return whether an `interlock up` of this user runs in the folder of its file.

    Any other file, such as one in a repository that was cloned, must name no modules: its author
    would decide which code the commands run.
    """
    try:
        # A link could lead to a file that some other program has locked.
        lock = os.open(file.with_name(LOCK_FILE), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if {file.stat().st_uid, os.fstat(lock).st_uid} != {os.getuid()}:
            return False
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
