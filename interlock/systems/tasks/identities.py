"""The identities of agents: name, role and command, on which their trust depends."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress

from interlock import Settings
from interlock.system.errors import HeldError, IdTakenError
from interlock.system.records import Records
from interlock.system.settings import SettingsError
from interlock.systems.tasks.machines.effects import ASSIGNMENT
from interlock.systems.tasks.machines.identity.table import State as IdentityState
from interlock.systems.tasks.machines.trust import Trust
from interlock.systems.tasks.settings import TaskSettings


def identity_id(root: str, *, name: str, role: str, command: str) -> str:
    """Return the id of an identity, whether its record exists or not."""
    digest = hashlib.sha256(json.dumps([name, role, command]).encode()).hexdigest()[:16]
    return f"{root}/identity~{digest}"


def ensure_identity(records: Records, root: str, *, name: str, role: str, command: str) -> str:
    """Return the id of an identity; create its record if it is new.

    Raises HeldError if a person took the identity out of service.
    """
    fields = {"name": name, "role": role, "command": command}
    new_id = identity_id(root, name=name, role=role, command=command)
    with suppress(IdTakenError):
        records.named(ASSIGNMENT.name).create("identity", new_id, fields)
    if records.views.record(new_id).state == IdentityState.RETIRED:
        raise HeldError(new_id, f"the agent {name} was taken out of service by a person")
    return new_id


def check_files_by_trust(settings: Settings) -> None:
    """Raise SettingsError if INTERLOCK_FILES_BY_TRUST names a level of trust that there is not.

    A worker asks at its start. Commands do without the limits, so that no level refuses them.
    """
    if unknown := sorted(settings.of(TaskSettings).files_by_trust.keys() - set(Trust)):
        raise SettingsError(
            f"INTERLOCK_FILES_BY_TRUST: {unknown[0]!r} is no level of trust; "
            f"the levels: {', '.join(Trust)}"
        )
