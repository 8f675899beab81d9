"""Knows the secrets that the commands of a worker could print."""

from __future__ import annotations

from interlock.workers.config import Settings
from interlock.workers.engine.work_environment import environment_of_work
from interlock.workers.redaction import named_secrets, passwords


def secrets_of(settings: Settings) -> set[str]:
    """Return the secrets that a command of this worker could print.

    They are the secret settings, the variables that a command gets and whose names say that they
    are secrets, and the passwords in all addresses.
    """
    fields = type(settings).model_fields
    values = {name: getattr(settings, name) for name in fields}
    hidden = [str(value) for name, value in values.items() if value and not fields[name].repr]
    environment = environment_of_work()
    return {
        *(value for value in hidden if "://" not in value),  # of an address, its passwords
        *named_secrets(environment),
        *passwords(map(str, values.values())),
    }
