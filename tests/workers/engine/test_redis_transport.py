"""The Redis transport: a consumer that acknowledges loses no message, and a refusal is logged."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu import Connection, Consumer, Exchange, Queue

from interlock.workers.gateways.server import EmbeddedServer
from tests.conftest import NewServer
from tests.servers import REFUSALS, refusing
from tests.waiting import until

TRANSPORT = "interlock.workers.engine.redis_transport:Transport"
# A consumer that is killed when it has taken a message and has not begun to deliver it.
KILLED = """
import os, signal, sys
from kombu import Connection, Consumer, Queue
from interlock.workers.engine.redis_transport import Channel
Channel._deliver_item = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
url, transport, name = sys.argv[1:]
options = {"unacked_key": name + ".unacked", "unacked_index_key": name + ".unacked_index"}
connection = Connection(url, transport=transport, transport_options=options)
with Consumer(connection, [Queue(name)], callbacks=[print]):
    connection.drain_events(timeout=180)
"""


def connection_of(server: EmbeddedServer, name: str, **options: Any) -> Connection:
    """Return a connection whose receipts have keys of their own."""
    keys = {
        "unacked_key": f"{name}.unacked",
        "unacked_index_key": f"{name}.unacked_index",
        "unacked_mutex_key": f"{name}.unacked_mutex",
        "unacked_restore_throttle": 1,
    }
    return Connection(server.url, transport=TRANSPORT, transport_options=keys | options)


def test_a_message_whose_consumer_is_killed_when_it_has_taken_it_is_read_again_once(
    server: EmbeddedServer, client: redis.Redis, prefix: str
) -> None:
    with connection_of(server, prefix, visibility_timeout=0.1) as connection:
        producer = connection.Producer(serializer="json")
        producer.publish({"id": "plain"}, routing_key=prefix)
        producer.publish({"id": "last"}, routing_key=prefix, priority=9)
        command = [sys.executable, "-c", KILLED, server.url, TRANSPORT, prefix]
        killed = subprocess.run(command, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert client.hlen(f"{prefix}.unacked") == 1

        read: list[str] = []

        def keep(body: dict[str, str], message: Any) -> None:
            read.append(body["id"])
            message.ack()

        def has_read_both() -> bool:
            with suppress(TimeoutError):
                connection.drain_events(timeout=0.1)
            return len(read) >= 2

        with Consumer(connection, [Queue(prefix)], callbacks=[keep]):
            until(has_read_both, what="both messages are read")

        assert sorted(read) == ["last", "plain"]
        assert not client.exists(prefix, f"{prefix}.unacked", f"{prefix}.unacked_index")


def test_a_reader_does_not_wait_while_a_list_that_it_does_not_watch_has_messages(
    server: EmbeddedServer, prefix: str
) -> None:
    """It watches one list for a second at a time: 100 messages of another one took 100 s."""
    read: list[object] = []

    def keep(body: object, message: Any) -> None:
        read.append(body)
        message.ack()

    def has_read_all() -> bool:
        connection.drain_events(timeout=180)
        return len(read) == 100

    with connection_of(server, prefix) as connection:
        producer = connection.Producer(serializer="json")
        for number in range(100):
            producer.publish({"id": number}, routing_key=prefix, priority=9)
        with Consumer(connection, [Queue(prefix)], callbacks=[keep]):
            until(has_read_all, what="every message is read", within_s=180)


# A password is not asked of a client that is connected.
@pytest.mark.parametrize("why", [why for why in REFUSALS if why != "wants a password"])
def test_what_a_consumer_repeats_every_second_logs_a_refusal_once(
    new_server: NewServer, prefix: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_server()
    # Kombu keeps the bindings of a queue alive that expires, as a worker's own queue does.
    queue = Queue(prefix, expires=60)
    with (
        connection_of(server, prefix) as connection,
        redis.Redis.from_url(server.url) as client,
        Consumer(connection, [queue]),
    ):
        cycle = connection.transport.cycle
        with refusing(client, why):
            for _ in range(2):
                cycle.maybe_restore_messages()
                cycle.maybe_refresh_binding_expiry()
        cycle.maybe_refresh_binding_expiry()
        cycle.maybe_restore_messages()

    logged = [line for line in caplog.records if line.levelno >= logging.WARNING]
    assert [line.getMessage().partition(": ")[0] for line in logged] == [
        "this process waits for the broker",
        "the broker does not refuse this process any more",
    ]
    assert not any(line.exc_info for line in logged)


def test_a_consumer_that_stops_while_the_broker_is_away_leaves_no_file(
    new_server: NewServer, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, taken = new_server(), list[Any]()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with connection_of(server, prefix, ack_emulation=False) as connection:
        connection.Producer(serializer="json").publish({"id": 1}, routing_key=prefix)
        consumer = Consumer(connection, [Queue(prefix)], on_message=taken.append)
        consumer.consume()
        connection.drain_events(timeout=60)
        assert len(taken) == 1

        server.stop()
        connection.default_channel.qos.restore_unacked_once()

    assert list(temporary.iterdir()) == []


def test_a_producer_whose_channel_was_closed_opens_another_one(
    server: EmbeddedServer, client: redis.Redis, prefix: str
) -> None:
    with connection_of(server, prefix) as connection:
        producer = connection.Producer(serializer="json")
        producer.channel.close()  # as kombu does where a broker refuses

        producer.publish({"id": "one"}, routing_key=prefix, retry=True)

    assert client.llen(prefix) == 1


def test_the_messages_of_a_queue_are_counted_if_it_is_asked_for_and_not_if_it_is_declared(
    server: EmbeddedServer, prefix: str
) -> None:
    with connection_of(server, prefix) as connection, connection.channel() as channel:
        connection.Producer(serializer="json").publish({"id": "one"}, routing_key=prefix)

        asked = channel.queue_declare(queue=prefix, passive=True)
        declared = channel.queue_declare(queue=prefix)

    assert (asked.message_count, declared.message_count) == (1, 0)


def test_queues_are_bound_in_one_step_as_kombu_binds_each_and_then_not_again(
    server: EmbeddedServer, client: redis.Redis, prefix: str
) -> None:
    names = [f"{prefix}.one", f"{prefix}.two"]
    queues = [Queue(name, Exchange(name, "direct"), routing_key=name) for name in names]

    def take_bindings() -> dict[Any, Any]:
        keys = client.keys(f"_kombu.binding*{prefix}*")
        bindings = {key: client.smembers(key) for key in keys}
        client.delete(*keys, "no such key")
        return bindings

    def declare_all() -> None:
        for queue in queues:
            queue(connection.default_channel).declare()

    with connection_of(server, prefix) as connection:
        declare_all()
        bound_by_kombu = take_bindings()
    with connection_of(server, prefix) as connection:
        connection.default_channel.bind_queues(queues)
        bound_in_one_step = take_bindings()
        declare_all()

    assert bound_in_one_step == bound_by_kombu
    assert len(bound_by_kombu) == 4
    assert take_bindings() == {}
