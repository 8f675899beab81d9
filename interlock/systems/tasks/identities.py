"""The identities of agents: name, role and command, on which their trust depends."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress

from interlock import Settings
from interlock.system.errors import HeldError, IdTakenError
from interlock.system.records import Dispatch, SettingsError
from interlock.system.tables import Cause
from interlock.systems.tasks.machines.effects import ASSIGNMENT
from interlock.systems.tasks.machines.trust import Trust
from interlock.systems.tasks.settings import TaskSettings


def identity_id(root: str, *, name: str, role: str, command: str) -> str:
    """Return the id of an identity, whether its record exists or not."""
    digest = hashlib.sha256(json.dumps([name, role, command]).encode()).hexdigest()[:16]
    return f"{root}/identity~{digest}"


def ensure_identity(dispatch: Dispatch, root: str, *, name: str, role: str, command: str) -> str:
    """Return the id of an identity; create its record if it is new.

    Raises HeldError if a person took the identity out of service.
    """
    fields = {"name": name, "role": role, "command": command}
    record_id = identity_id(root, name=name, role=role, command=command)
    with suppress(IdTakenError):
        dispatch.lifecycle.create("identity", record_id, fields, Cause(ASSIGNMENT.name))
    if dispatch.views.record(record_id).state == "retired":
        raise HeldError(record_id, f"the agent {name} was taken out of service by a person")
    return record_id


def check_files_by_trust(settings: Settings) -> None:
    """Raise SettingsError if INTERLOCK_FILES_BY_TRUST names a level of trust that there is not."""
    if unknown := sorted(settings.of(TaskSettings).files_by_trust.keys() - set(Trust)):
        raise SettingsError(
            f"INTERLOCK_FILES_BY_TRUST: {unknown[0]!r} is no level of trust; "
            f"the levels: {', '.join(Trust)}"
        )
