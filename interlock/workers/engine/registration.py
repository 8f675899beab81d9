"""Registers a Celery task for every effect, which the runner of this process performs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from celery import Celery

from interlock.kernel.machine import Machine
from interlock.workers.engine.continued_tasks import continue_in
from interlock.workers.engine.effect_ends import EffectFailedError
from interlock.workers.engine.other_tables import meant
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.work import Handler

# What Celery expects to be thrown, it logs without a traceback.
OPTIONS = {"bind": True, "ignore_result": True, "throws": (EffectFailedError,), "shared": False}


class MissingHandlerError(RuntimeError):
    """An effect of a machine has no handler: records would enter its stage and never leave."""


def register_effects(
    app: Celery, runner: Runner, machines: Mapping[str, Machine], handlers: Mapping[str, Handler]
) -> None:
    """Register a Celery task for every effect of every machine, by the task's name.

    Raises MissingHandlerError.
    """
    app.continue_in = partial(continue_in, runner.continuing)
    app.meant = partial(meant, runner.dispatch)
    for machine, name, handler in handled_effects(machines, handlers):
        task = runner.task(machine, name, handler)
        task.__doc__ = f"Perform the effect {name} of a {machine.name}."
        app.task(task, name=f"{machine.name}.{name}", **OPTIONS)


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
