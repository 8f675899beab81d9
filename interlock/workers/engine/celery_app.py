"""Makes the Celery app of a deployment: broker, queues and options. Tasks register elsewhere."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from celery import Celery
from kombu import Exchange, Queue
from kombu.exceptions import OperationalError
from kombu.utils.url import parse_url

from interlock.kernel.machine import Machine
from interlock.kernel.machines import effect_queue
from interlock.kernel.record import PRIORITY_LAST
from interlock.workers.config import SINGLE_SERVER_SCHEMES, Settings
from interlock.workers.engine.redis_transport import TRANSPORT, Channel

SWEEPS_QUEUE = "sweeps"
INTAKE_QUEUE = "intake"


def effect_queues(machines: Iterable[Machine], *others: str) -> tuple[str, ...]:
    """Return the names of the queues of all effects of these machines, and those of others."""
    named = {
        effect_queue(machine.name, effect)
        for machine in machines
        for effect in machine.effects.values()
    }
    return (*sorted(named), *others)


def pools_of(settings: Settings, machines: Iterable[Machine]) -> dict[str, list[str]]:
    """Return the queues of each pool that an effect of these machines names."""
    found: dict[str, set[str]] = {}
    for machine in machines:
        for effect in machine.effects.values():
            if effect.pool:
                queue = queue_of(settings, effect_queue(machine.name, effect))
                found.setdefault(effect.pool, set()).add(queue)
    return {pool: sorted(queues) for pool, queues in sorted(found.items())}


def make_app(settings: Settings, queues: tuple[str, ...]) -> Celery:
    """Return a configured app for these queues: effects, SWEEPS_QUEUE, or INTAKE_QUEUE."""
    names = [queue_of(settings, name) for name in queues]
    redis = settings.broker.startswith(SINGLE_SERVER_SCHEMES)
    app = Celery(settings.namespace, set_as_current=False)
    app.conf.update(
        broker_url=_address(settings.broker),
        broker_transport=TRANSPORT if redis else None,
        broker_use_ssl=_tls(settings.broker),
        broker_transport_options=_redis_options(settings) if redis else {"confirm_publish": True},
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # A broker that refuses a command, such as a replica, is waited for as one that is away.
        broker_channel_error_retry=True,
        broker_pool_acquire_timeout=10,
        broker_pool_limit=settings.concurrency + 10,
        task_queues=[_queue(name, redis=redis) for name in names],
        task_default_queue=names[0],
        task_create_missing_queues=False,
        task_serializer="json",
        accept_content=["json"],
        event_serializer="json",
        # Deployments that share a broker neither see nor control each other's workers. The names do
        # not begin as those of queues do: a producer may write to queues, and not to these.
        control_exchange=f"celery-{settings.namespace}",
        event_exchange=f"celeryev-{settings.namespace}",
        event_queue_prefix=f"celeryev-{settings.namespace}",
        task_ignore_result=True,
        result_backend=None,
        # A lease protects the effect, so its message need not; only intake acknowledges late.
        task_acks_late=False,
        task_publish_retry_policy={"max_retries": 2, "interval_start": 0.1, "interval_max": 0.5},
        worker_prefetch_multiplier=1,
        worker_consumer="interlock.workers.engine.consumer:Consumer",
        worker_send_task_events=settings.task_events,
        task_send_sent_event=False,
        worker_hijack_root_logger=False,
        worker_soft_shutdown_timeout=10.0,
        beat_scheduler="interlock.workers.engine.beat:SweepScheduler",
        timezone="UTC",
        enable_utc=True,
    )
    return app


def queue_of(settings: Settings, name: str) -> str:
    """Return the name of a queue, which on Redis is the name of a list."""
    return f"{settings.namespace}.{name}"


def count_messages(app: Celery, queues: Iterable[str]) -> dict[str, int]:
    """Return how many messages are in each queue; 0 if there is none, or the broker is away."""
    counts = dict.fromkeys(queues, 0)
    # A connection of its own: on AMQP a queue that does not exist closes the channel, and its
    # library opens it again for the next queue, but without what a consumer had set on it.
    with app.connection_for_read() as connection:
        unknown, away = connection.channel_errors, connection.connection_errors
        with suppress(*unknown, *away, OperationalError), connection.channel() as channel:
            for queue in counts:
                with suppress(*unknown):
                    declared = channel.queue_declare(queue=queue, passive=True)
                    counts[queue] = int(declared.message_count)
    return counts


def oldest_sent_s(app: Celery, queues: Iterable[str]) -> dict[str, int]:
    """Return when the oldest message of each queue was sent, in seconds, where one says that.

    Only a Redis broker lets a message be read where it waits; of others nothing is returned.
    """
    with app.connection_for_read() as connection:
        errors = (*connection.channel_errors, *connection.connection_errors, OperationalError)
        with suppress(*errors), connection.channel() as channel:
            return channel.oldest_sent_s(queues) if isinstance(channel, Channel) else {}
    return {}


def host_queue(settings: Settings, host: str) -> Queue:
    """Return the queue of local effects on one host, which the workers of that host serve."""
    redis = settings.broker.startswith(SINGLE_SERVER_SCHEMES)
    return _queue(queue_of(settings, local_queue(host)), redis=redis)


def local_queue(host: str) -> str:
    """Return the name of a host's queue: one for all effects, because workers poll each queue."""
    return f"local@{host}"


def broker_priority(settings: Settings, priority: int) -> int:
    """Translate a record's priority for the broker: Redis serves 0 first, AMQP serves 9 first."""
    first_is_zero = not settings.broker.startswith(("amqp", "pyamqp"))
    return priority if first_is_zero else PRIORITY_LAST - priority


def _address(url: str) -> str:
    # Kombu has another form for a socket.
    return url.replace("unix://", f"{TRANSPORT}+socket://", 1)


def _tls(url: str) -> dict[str, Any] | None:
    """Return the TLS options of an address. Kombu derives none from the scheme of our transport."""
    if not url.startswith("rediss://"):
        return None
    return {"ssl_cert_reqs": ssl.CERT_REQUIRED, **parse_url(url).get("ssl", {})}


def _queue(name: str, *, redis: bool) -> Queue:
    arguments = {} if redis else {"x-max-priority": PRIORITY_LAST}
    return Queue(name, Exchange(name, "direct"), routing_key=name, queue_arguments=arguments)


def _redis_options(settings: Settings) -> dict[str, Any]:
    """Return options that survive half-open and dropped connections; kombu's defaults hang."""
    return {
        "ack_emulation": settings.ack_emulation,
        # Each priority has a list of its own. Kombu's default has four: 3, 4 and 5 would be one.
        "priority_steps": [*range(PRIORITY_LAST + 1)],
        "visibility_timeout": 3_600,
        # Receipts of our own form: another application of this server must not read them.
        "unacked_key": queue_of(settings, "unacked"),
        "unacked_index_key": queue_of(settings, "unacked_index"),
        "unacked_mutex_key": queue_of(settings, "unacked_mutex"),
        "socket_timeout": 5,
        "socket_connect_timeout": 5,
        "socket_keepalive": not settings.broker.startswith("unix://"),
        "health_check_interval": 5,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
        "max_connections": settings.concurrency + 50,
        "client_name": settings.namespace,
    }
