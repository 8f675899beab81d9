"""The identities of agents: name, role and command, on which their trust depends."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress

from interlock.system.errors import HeldError, IdTakenError
from interlock.system.records import Records
from interlock.systems.tasks.machines.effects import ASSIGNMENT
from interlock.systems.tasks.machines.identity.table import State as IdentityState


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
