"""The servers that tests run on are what they claim to be."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import amqp
import pytest
import redis
from redis.cluster import RedisCluster

from interlock.workers.gateways.server import LOOPBACK, EmbeddedServer
from tests import servers
from tests.conftest import NewServer
from tests.servers import rabbitmq_node, redis_binary, redis_version
from tests.waiting import until


def test_private_servers_are_strangers_to_each_other(new_server: NewServer) -> None:
    first, second = new_server(), new_server(settings={"maxmemory": "64mb"})
    with (
        redis.Redis.from_url(first.url, decode_responses=True) as one,
        redis.Redis.from_url(second.url, decode_responses=True) as other,
    ):
        one.set("key", "value")

        assert other.get("key") is None
        assert other.config_get("maxmemory") == {"maxmemory": str(64 * 1024 * 1024)}


def test_the_cluster_owns_every_slot_and_refuses_two_slots_in_one_script(
    cluster: EmbeddedServer, prefix: str
) -> None:
    with RedisCluster(host=LOOPBACK, port=cluster.port, decode_responses=True) as client:
        client.set(f"{{{prefix}}}:key", "value")
        assert client.get(f"{{{prefix}}}:key") == "value"
    with (
        redis.Redis.from_url(cluster.url) as client,
        pytest.raises(redis.ResponseError, match=r"CROSSSLOT|same slot"),
    ):
        client.eval("return 1", 2, "one", "other")


def test_the_redis_server_is_redis_and_runs_with_our_settings(redis_server: EmbeddedServer) -> None:
    binary = redis_binary()
    assert binary is not None
    assert redis_version(binary) >= (7, 0)
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        assert client.info("server")["redis_version"].startswith("7.")
        assert client.config_get("appendonly") == {"appendonly": "yes"}


@pytest.mark.slow
def test_the_rabbitmq_node_keeps_a_message(rabbitmq: str, prefix: str) -> None:
    host = rabbitmq.partition("@")[2].rstrip("/")
    with amqp.Connection(host, userid="guest", password="guest") as connection:
        channel = connection.channel()
        channel.queue_declare(prefix)
        channel.basic_publish(amqp.Message("hello"), routing_key=prefix)
        message = until(lambda: channel.basic_get(prefix, no_ack=True), what="the message arrives")
        assert message.body == "hello"


LISTEN = "import os, socket; s = socket.create_server(('127.0.0.1', int(os.environ[{port!r}])))\n"
STAY = "import time; print('booting', flush=True); time.sleep(600)\n"
# What stands in for a node that is broken, and what is said of it.
BROKEN = {
    "is silent": (
        LISTEN.format(port="RABBITMQ_NODE_PORT") + STAY,
        r"the node of RabbitMQ does not answer at 127.0.0.1:\d+: timed out\n(booting\n)+",
    ),
    "does not listen": (
        STAY,
        r"the node of RabbitMQ does not answer at 127.0.0.1:\d+: .* refused\n(booting\n)+",
    ),
    "ends": (
        "raise SystemExit('no disk')",
        r"the node of RabbitMQ ended with 1\n(booting\n)?no disk",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_rabbitmq_node_that_does_not_start_is_named_with_what_it_said(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, said = BROKEN[how]
    mapper = LISTEN.format(port="ERL_EPMD_PORT") + STAY
    for name, program in (("epmd", mapper), ("rabbitmq-server", node)):
        file = tmp_path / name
        file.write_text(f"#!{sys.executable}\n{program}")
        file.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(servers, "RABBITMQ", tmp_path / "rabbitmq-server")
    monkeypatch.setattr(servers, "RABBITMQ_START_S", 2.0)
    monkeypatch.setattr(servers, "ANSWER_S", 0.5)

    with pytest.raises(AssertionError, match=said), rabbitmq_node(tmp_path):
        pass
