"""Interlock's side: a deployment's Celery app with the measured machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from celery import Celery

from bench.flow import flow
from bench.machine import CHAIN, STEP, Trigger
from bench.marks import MARKS
from interlock.kernel.store import scripts
from interlock.workers.config import Settings
from interlock.workers.engine.affinity import tune_when_ready
from interlock.workers.engine.celery_app import SWEEPS_QUEUE, effect_queues, make_app
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.effects import HANDLERS as COMMON
from interlock.workers.engine.publisher import Publisher
from interlock.workers.engine.registration import register_effects
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.trace_context import start_traces
from interlock.workers.engine.work import EffectWork, Handler, Outcome

UNCOUNTED = "BENCH_UNCOUNTED"  # with this variable, the scripts count nothing for metrics
STEPPED = Outcome(Trigger.STEPPED)
MACHINES = {CHAIN.name: CHAIN, flow.name: flow.machine}


def step(work: EffectWork) -> Outcome:
    """Do nothing, successfully."""
    del work
    MARKS.body()
    return STEPPED


def handlers() -> Mapping[str, Handler]:
    """Return what the measured machines do, and the effects that every machine has."""
    own: Mapping[str, Mapping[str, Handler]] = {
        CHAIN.name: {STEP.name: step},
        flow.name: flow.handlers,
    }
    return {
        f"{machine}.{name}": handler
        for machine, found in own.items()
        for name, handler in {**COMMON, **found}.items()
    }


def count_nothing() -> None:
    """Let the scripts of this process call functions that do nothing where they count."""
    whole = scripts.source_of
    lua = (files("interlock.kernel.store") / "lua" / "part" / "metrics.lua").read_text("utf-8")
    part = lua.partition("\n")[2].rstrip("\n")
    names = re.findall(r"^local function (\w+)", part, re.MULTILINE)
    instead = "\n".join([part, *(f"local function {name}() end" for name in names)])
    assert part in whole("commit"), "the part is found in the scripts"
    scripts.source_of = cache(lambda name: whole(name).replace(part, instead))


def assemble(settings: Settings) -> Celery:
    """Return the app of a worker."""
    if UNCOUNTED in os.environ:
        count_nothing()
    start_traces(settings, "bench")
    celery_app = make_app(settings, (*effect_queues(MACHINES.values()), SWEEPS_QUEUE))
    dispatch = Dispatch(settings, MACHINES, Publisher(settings, celery_app, MACHINES))
    runner = Runner(dispatch, Resources(settings))
    register_effects(celery_app, runner, MACHINES, handlers())
    tune_when_ready(runner.affinity)
    MARKS.listen()
    return celery_app


def open_dispatch(settings: Settings) -> Dispatch:
    """Return a dispatch as a producer uses it."""
    return Dispatch(settings, MACHINES)
