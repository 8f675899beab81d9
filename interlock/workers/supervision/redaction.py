"""Knows the secrets that an agent of a worker could print."""

from __future__ import annotations

from interlock.workers.config import Settings
from interlock.workers.engine.work_environment import environment_of_work
from interlock.workers.redaction import Redaction, named_secrets, passwords


def secrets_of(settings: Settings) -> set[str]:
    """Return the secrets that an agent of this worker could print.

    They are the secret settings, the variables that an agent gets and whose names say that they
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


def last_words(text: str, settings: Settings, length_max: int) -> str:
    """Return the end of what a process has printed or reported, where errors are, without secrets.

    Give more than `length_max` letters where there are more, or the end of a secret may be shown.
    """
    return Redaction(secrets_of(settings)).text(text)[-length_max:]
