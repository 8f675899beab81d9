"""Interlock's side: a deployment's Celery app with the measured machine."""

from __future__ import annotations

from celery import Celery

from bench.machine import MACHINES, STEP, Trigger
from bench.marks import Marks
from interlock.workers.config import Settings
from interlock.workers.engine.affinity import tune_when_ready
from interlock.workers.engine.celery_app import SWEEPS_QUEUE, make_app
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.publisher import Publisher
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
    celery_app = make_app(settings, (STEP.name, SWEEPS_QUEUE))
    dispatch = Dispatch(settings, MACHINES, Publisher(settings, celery_app))
    runner = Runner(dispatch, Resources(settings))
    register_effects(celery_app, runner, MACHINES, {STEP.name: step})
    tune_when_ready(runner.affinity)
    MARKS.listen()
    return celery_app


def open_dispatch(settings: Settings) -> Dispatch:
    """Return a dispatch as a producer uses it."""
    return Dispatch(settings, MACHINES)
