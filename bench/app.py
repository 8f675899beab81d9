"""Our side: a Celery app as a deployment's, with the measured machine in place of the product's."""

from __future__ import annotations

from celery import Celery

from bench.machine import MACHINES, STEP, Trigger
from bench.marks import Marks
from interlock.workers.config import Settings
from interlock.workers.engine.affinity import tune_when_ready
from interlock.workers.engine.app import SWEEPS_QUEUE, make_app
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner, register_effects
from interlock.workers.engine.work import Outcome, Work

MARKS = Marks()
STEPPED = Outcome(Trigger.STEPPED)


def step(work: Work) -> Outcome:
    """Do nothing, successfully."""
    del work
    MARKS.body()
    return STEPPED


def assemble(settings: Settings) -> Celery:
    """Return the app of a worker."""
    made = make_app(settings, (STEP.name, SWEEPS_QUEUE))
    dispatch = Dispatch(settings, MACHINES, made)
    runner = Runner(dispatch, Resources(settings))
    register_effects(made, runner, MACHINES, {STEP.name: step})
    tune_when_ready(runner.affinity)
    MARKS.listen()
    return made


def door(settings: Settings) -> Dispatch:
    """Return a producer's way in."""
    return Dispatch(settings, MACHINES, make_app(settings, (STEP.name, SWEEPS_QUEUE)))
