"""The Celery app for Flower, with its options: `celery -A interlock.workers.flower flower`."""

from __future__ import annotations

from celery import Celery
from celery.events.state import Task
from celery.states import SUCCESS
from flower.options import options

from interlock.kernel.machines import MACHINES
from interlock.workers.config import Settings
from interlock.workers.engine.celery_app import INTAKE_QUEUE, SWEEPS_QUEUE, make_app
from interlock.workers.engine.entry import start

CAUSE_AND_EFFECT = 2


def format_task(task: Task) -> Task:
    """Show why a task failed where others have their result, and hide what would mislead.

    Flower's own column for exceptions would put their text into the page as HTML.
    """
    task.retries = None  # Celery's own, which is always 0
    # The sender of the message may be a sweep, which is a task that Flower does not know.
    task.root = task.root_id = task.parent = task.parent_id = None
    if task.state == SUCCESS:
        task.exception = task.traceback = None
        return task
    task.result, task.exception = task.exception, None
    if (task.traceback or "").count("Traceback (most recent call last)") < CAUSE_AND_EFFECT:
        task.traceback = None  # no exception caused it: it shows only how Celery called the effect
    return task


def assemble(settings: Settings) -> Celery:
    """Return the app, which knows every queue."""
    effects = {name for machine in MACHINES.values() for name in machine.effects}
    return make_app(settings, (*sorted(effects), SWEEPS_QUEUE, INTAKE_QUEUE))


# A variable FLOWER_* or an argument replaces any of these.
options.tasks_columns = "name,args,state,result,received,runtime,worker,uuid"
options.format_task = format_task
options.read_only = True
app = start(assemble)
