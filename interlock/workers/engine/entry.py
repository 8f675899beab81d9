"""Starts a Celery app: a wrong setting ends its process with one sentence."""

from __future__ import annotations

from collections.abc import Callable

from celery import Celery

from interlock.workers.config import Settings, SetupError, read_settings
from interlock.workers.engine.own_systems import add_systems_of
from interlock.workers.engine.registration import MissingHandlerError
from interlock.workers.engine.system import SystemsError
from interlock.workers.inherited import remove_redirects


def start(assemble: Callable[[Settings], Celery]) -> Celery:
    """Return the app of this process, which knows the systems that its settings name."""
    remove_redirects()
    try:
        settings = read_settings()
        add_systems_of(settings)
        return assemble(settings)
    except (SetupError, SystemsError, MissingHandlerError) as refusal:
        raise SystemExit(f"interlock: {refusal}") from refusal
