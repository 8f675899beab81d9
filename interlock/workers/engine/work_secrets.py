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
    parts = (settings, *settings.parts)
    fields = [
        (getattr(part, name), one)
        for part in parts
        for name, one in type(part).model_fields.items()
    ]
    hidden = [str(value) for value, field in fields if value and not field.repr]
    environment = environment_of_work()
    return {
        *(value for value in hidden if "://" not in value),  # of an address, its passwords
        *named_secrets(environment),
        *passwords(str(value) for value, _ in fields),
    }
