"""Renders messages as Celery would send them, from templates that Celery rendered once.

The commit that creates an effect pushes its message too, so rendering needs no connection: Celery
renders through a channel of kombu that keeps what it would send, and asks no server.
"""

from __future__ import annotations

import base64
import json
import os
import time
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

from celery import Celery
from kombu import Queue
from kombu.utils.json import dumps

from interlock.workers.engine.redis_transport import Channel, Transport

# Placeholders that occur nowhere else in a message and need no escaping in JSON.
SHOWN, ARGUMENT, TIME = "@@interlock-shown@@", "@@interlock-argument@@", "@@interlock-time@@"
TRACE, QUEUE = "@@interlock-trace@@", "@@interlock-queue@@"


class RenderingChannel(Channel):
    """Keeps each message, with the Redis list that it would be pushed to, and asks no server."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.pushes: list[tuple[str, str]] = []
        super().__init__(*args, **options)

    def _create_client(self, asynchronous: bool = False) -> RenderingChannel:  # noqa: FBT001, FBT002 - kombu's signature
        del asynchronous
        return self

    def ping(self) -> None:
        """Do nothing: kombu pings the server when it makes a channel."""

    def exchange_declare(self, *args: Any, **options: Any) -> None:
        """Declare nothing: the workers declare the queues that they read."""

    queue_declare = queue_bind = exchange_declare

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        del options
        priority = self._get_message_priority(message, reverse=False)
        self.pushes.append((self._q_for_pri(queue, priority), dumps(message)))


class RenderingTransport(Transport):
    """The transport of such channels."""

    Channel = RenderingChannel


@dataclass(frozen=True, slots=True)
class Template:
    """The message of one task with one priority, cut where messages differ."""

    list_name: str
    parts: tuple[str, ...]
    fields: tuple[str, ...]
    body: str

    def fill(self, queue: str, argument: str, shown: str, traceparent: str) -> tuple[str, bytes]:
        """Return the name of the queue's Redis list, and a message with a new delivery tag."""
        body = self.body.replace(ARGUMENT, json.dumps(argument)[1:-1])
        values = {
            "queue": queue,
            "id": argument,
            "shown": shown,
            "time": str(int(time.time())),
            "trace": traceparent,
            "tag": os.urandom(16).hex(),
            "body": base64.b64encode(body.encode()).decode(),
        }
        filled = [self.parts[0]]
        for field, part in zip(self.fields, self.parts[1:], strict=True):
            filled += (values[field], part)
        return self.list_name.replace(QUEUE, queue), "".join(filled).encode()


# By task, priority and the placeholder of a trace. Apps differ only in the names of their queues,
# so the clients of a process share the templates: Celery takes milliseconds to render the first
# message of an app.
_TEMPLATES: dict[tuple[str, int, str], Template] = {}


class MessageTemplates:
    """Renders the messages of one app, in a fraction of the time that Celery takes."""

    def __init__(self, app: Celery) -> None:
        self.app = app
        self._lock = Lock()

    @cached_property
    def _producer(self) -> Any:
        """The producer of all templates: to make it takes as long as to render one."""
        # With an address of its own, as that of a socket would name another transport.
        connection = self.app.connection_for_write("redis://", transport=RenderingTransport)
        return self.app.amqp.Producer(connection.channel())

    def render(
        self,
        task: str,
        queue: str,
        priority: int,
        argument: str,
        shown: str,
        traceparent: str = "",
    ) -> tuple[str, bytes]:
        """Return the Redis list to push to, and the message as `apply_async` would have sent it.

        With a `traceparent` the message has it as a header.
        """
        key = (task, priority, TRACE if traceparent else "")
        template = _TEMPLATES.get(key)
        if template is None:
            template = _TEMPLATES[key] = self._template(*key)
        return template.fill(queue, argument, shown, traceparent)

    def rendered_by_celery(
        self,
        task: str,
        queue: Queue,
        priority: int,
        argument: str,
        shown: str,
        traceparent: str,
    ) -> tuple[str, str]:
        """Let Celery render one message; return its Redis list and its JSON text."""
        with self._lock:
            pushes = self._producer.channel.pushes
            pushes.clear()
            self.app.send_task(
                task,
                args=[argument],
                task_id=argument,
                queue=queue,
                priority=priority,
                headers=trace_headers(traceparent),
                argsrepr=shown,
                kwargsrepr="",
                producer=self._producer,
                retry=False,
                ignore_result=True,
            )
            [(name, text)] = pushes
        return name, text

    def _template(self, task: str, priority: int, trace: str) -> Template:
        queue = Queue(QUEUE, routing_key=QUEUE)
        name, text = self.rendered_by_celery(task, queue, priority, ARGUMENT, SHOWN, trace)
        message = json.loads(text)
        body = base64.b64decode(message["body"]).decode()
        # Rendered inside a running effect, the template would name that effect as its parent.
        message["headers"] |= {"root_id": ARGUMENT, "parent_id": None}
        message["properties"]["timestamp"] = TIME
        text = json.dumps(message)
        # The argument is the task's id as well; `fill` replaces the one in the encoded body.
        text = text.replace(message["body"], "\0body\0")
        text = text.replace(message["properties"]["delivery_tag"], "\0tag\0")
        text = text.replace(f'"{TIME}"', "\0time\0")
        names = ((QUEUE, "queue"), (ARGUMENT, "id"), (SHOWN, "shown"), (TRACE, "trace"))
        for placeholder, field in names:
            text = text.replace(placeholder, f"\0{field}\0")
        pieces = text.split("\0")
        return Template(name, tuple(pieces[::2]), tuple(pieces[1::2]), body)


def trace_headers(traceparent: str) -> dict[str, str]:
    """Return the headers of a message that is sent in a span; there are none outside of one."""
    return {"traceparent": traceparent} if traceparent else {}
