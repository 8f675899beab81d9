"""Registers a Celery task for every effect, which the runner of this process performs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from celery import Celery
from celery.app.task import Task
from celery.exceptions import Ignore
from kombu.exceptions import OperationalError

from interlock.kernel.machine import Machine
from interlock.workers.engine.continued_tasks import continue_in
from interlock.workers.engine.effect_ends import EffectFailedError, EffectNotOwedError
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.work import Handler

log = logging.getLogger(__name__)


class MissingHandlerError(RuntimeError):
    """An effect of a machine has no handler: records would enter its stage and never leave."""


def register_effects(
    app: Celery, runner: Runner, machines: Mapping[str, Machine], handlers: Mapping[str, Handler]
) -> None:
    """Register a Celery task for every effect of every machine, by the task's name.

    Raises MissingHandlerError.
    """
    app.continue_in = partial(continue_in, runner.continuing)
    for machine, name, handler in handled_effects(machines, handlers):
        _register(app, runner, machine, name, handler)


def handled_effects(
    machines: Mapping[str, Machine], handlers: Mapping[str, Handler]
) -> Iterator[tuple[Machine, str, Handler]]:
    """Yield each effect that workers run, with its machine and handler.

    Raises MissingHandlerError.
    """
    for machine in machines.values():
        for name, effect in machine.effects.items():
            if effect.kept:
                continue
            handler = handlers.get(f"{machine.name}.{name}")
            if handler is None:
                raise MissingHandlerError(
                    f"its system has no handler for {name}, an effect of {machine.name}; "
                    "records would enter its state and never leave"
                )
            yield machine, name, handler


def _register(app: Celery, runner: Runner, machine: Machine, name: str, handler: Handler) -> None:
    def task(self: Task, *args: Any, **kwargs: Any) -> str:
        if kwargs or len(args) != 1 or not isinstance(args[0], str):
            raise runner.claims.reject(f"{machine.name}.{name}", args, kwargs)
        try:
            return runner.perform(machine, name, handler, args[0])
        except EffectNotOwedError as refusal:
            log.info("%s: %s", args[0], refusal)
            if runner.dispatch.settings.task_events:
                # Flower shows it as revoked, unless an earlier message has reported its end.
                with suppress(OperationalError):
                    self.send_event("task-revoked")
            raise Ignore(str(refusal)) from refusal

    task.__doc__ = f"Perform the effect {name} of a {machine.name}."
    # What Celery expects to be thrown, it logs without a traceback.
    options = {"bind": True, "ignore_result": True, "throws": (EffectFailedError,), "shared": False}
    app.task(task, name=f"{machine.name}.{name}", **options)
