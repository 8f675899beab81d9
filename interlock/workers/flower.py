"""The Celery app for Flower, with its options: `celery -A interlock.workers.flower flower`."""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import quote

from celery import Celery
from celery.events.state import Task
from celery.states import SUCCESS
from flower import urls
from flower.app import Flower
from flower.options import options
from flower.views.tasks import TaskView
from tornado.escape import xhtml_escape

from interlock.kernel.machines import MACHINES
from interlock.workers.config import Settings
from interlock.workers.engine.celery_app import INTAKE_QUEUE, SWEEPS_QUEUE, effect_queues, make_app
from interlock.workers.engine.entry import start

CAUSE_AND_EFFECT = 2
# The place on Flower's page of a task where its buttons are.
BUTTONS = b'<div class="detail-actions">'


class LinkedTaskView(TaskView):
    """Shows a task, with a link to its record's page in the console."""

    console: ClassVar[str | None] = None  # its address, if it is known

    def render_string(self, template_name: str, **values: Any) -> bytes:
        """Return the page of Flower with the link. The id of an effect's task begins with it."""
        page: bytes = super().render_string(template_name, **values)
        record_id, colon, _ = str(self.path_args[0]).partition(":")
        if not (self.console and colon):
            return page
        address = xhtml_escape(f"{self.console}/records/{quote(record_id)}")
        link = f'<a class="btn btn-primary" href="{address}">Show its record</a>'
        return page.replace(BUTTONS, BUTTONS + link.encode(), 1)


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
    """Return the app, which knows every queue, and let Flower link to the console."""
    LinkedTaskView.console = settings.public_url
    if settings.broker.startswith("unix://"):
        # The lengths of queues: Flower knows a socket by the name of kombu's own transport alone.
        address = settings.broker.replace("unix://", "redis+socket://", 1)
        Flower.broker_uri = Flower.broker_uri_with_password = address
    for rule in urls.handlers:
        if getattr(rule, "target", None) is TaskView:
            rule.target = LinkedTaskView
    return make_app(settings, effect_queues(MACHINES.values(), SWEEPS_QUEUE, INTAKE_QUEUE))


# A variable FLOWER_* or an argument replaces any of these.
options.tasks_columns = "name,args,state,result,received,runtime,worker,uuid"
options.format_task = format_task
options.read_only = True
app = start(assemble)
