"""A rendered message equals that of Celery; a worker would refuse a different one."""

from __future__ import annotations

import base64
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import redis
from celery import Celery

from interlock.kernel.store.commands import EffectMessage
from interlock.workers.config import Settings
from interlock.workers.engine import messages
from interlock.workers.engine.celery_app import make_app, oldest_sent_s
from interlock.workers.engine.messages import MessageTemplates, RenderingChannel, Template
from interlock.workers.engine.publisher import Publisher
from interlock.workers.engine.redis_transport import Transport
from interlock.workers.gateways.server import EmbeddedServer
from tests.workers.engine.running import settings_for

ACL = Path(__file__).parents[3] / "deploy" / "users.acl"
KEY = "matter/3.1:4.0:0123456789"
SHOWN = "matter/3.1 v4"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
# These differ in each message, or between processes.
OWN = {"delivery_tag", "reply_to", "origin", "timestamp"}


@pytest.fixture
def app(server: EmbeddedServer, prefix: str) -> Celery:
    return make_app(settings_for(server.url, prefix), ("execution", "sweeps"))


def plain(message: bytes) -> dict[str, Any]:
    """Return a message without the fields that differ in each."""
    document: dict[str, Any] = json.loads(message)
    document["body"] = json.loads(base64.b64decode(document["body"]))
    for part in ("headers", "properties"):
        document[part] = {k: v for k, v in document[part].items() if k not in OWN}
    return document


@pytest.mark.parametrize(("priority", "trace"), [(0, ""), (4, TRACE), (5, ""), (9, TRACE)])
def test_a_rendered_message_is_what_apply_async_sends(
    app: Celery, client: redis.Redis, prefix: str, priority: int, trace: str
) -> None:
    queue = f"{prefix}.execution"
    app.send_task(
        "thread.execution",
        args=[KEY],
        task_id=KEY,
        queue=queue,
        priority=priority,
        headers={"traceparent": trace} if trace else {},
        argsrepr=SHOWN,
        kwargsrepr="",
        ignore_result=True,
    )
    lists = [name for name in client.keys(f"{queue}*") if client.type(name) == b"list"]
    assert len(lists) == 1
    sent = client.rpop(lists[0])
    assert isinstance(sent, bytes)

    templates = MessageTemplates(app)
    name, rendered = templates.render("thread.execution", queue, priority, KEY, SHOWN, trace)

    assert name.encode() == lists[0], "each priority has its list"
    assert plain(rendered) == plain(sent)
    sent_s = [json.loads(each)["properties"]["timestamp"] for each in (sent, rendered)]
    assert all(isinstance(each, int) for each in sent_s)
    assert 0 <= sent_s[1] - sent_s[0] < 60


def test_a_message_to_a_store_on_a_socket_is_rendered_without_asking_it() -> None:
    app = make_app(Settings(store_url="unix:///nowhere.sock"), ("execution",))

    # A name of its own, because templates are shared.
    name, _ = MessageTemplates(app).render("on.a.socket", "interlock.execution", 0, KEY, SHOWN, "")

    assert name == "interlock.execution"


def test_the_oldest_message_of_each_queue_is_known_by_when_it_was_sent(
    app: Celery, client: redis.Redis, server: EmbeddedServer, prefix: str
) -> None:
    for priority, sent_s in [(5, 900), (5, 1_000), (0, 950)]:
        app.send_task(
            "x", queue=f"{prefix}.execution", priority=priority, timestamp=sent_s, task_id="t"
        )
    app.send_task("x", queue=f"{prefix}.sweeps", timestamp="of no form", task_id="t")
    queues = [f"{prefix}.{name}" for name in ("execution", "sweeps", "empty")]

    line = re.search(r"^user producer .*(-@all .*)$", ACL.read_text(), re.MULTILINE)
    assert line
    rules = line[1].split()
    client.acl_setuser(prefix, enabled=True, passwords=["+secret"], keys=["*"], channels=["*"])
    store: Any = client  # redis-py leaves it untyped
    store.execute_command("ACL", "SETUSER", prefix, *rules)
    address = server.url.replace("://", f"://{prefix}:secret@", 1)
    as_producer = make_app(settings_for(address, prefix), ("execution", "sweeps"))
    try:
        for each in (app, as_producer):
            assert oldest_sent_s(each, queues) == {f"{prefix}.execution": 900}
    finally:
        client.acl_deluser(prefix)


def test_clients_of_a_process_that_differ_in_their_queues_share_a_template(
    app: Celery, server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = dict[tuple[str, int, str], Template]()
    monkeypatch.setattr(messages, "_TEMPLATES", made)
    other = make_app(settings_for(server.url, f"{prefix}b"), ("execution",))
    for each, queue in ((app, f"{prefix}.execution"), (other, f"{prefix}b.execution")):
        name, rendered = MessageTemplates(each).render("thread.execution", queue, 0, KEY, SHOWN)

        assert name == queue
        assert plain(rendered)["properties"]["delivery_info"]["routing_key"] == queue
    assert len(made) == 1


def test_urgent_messages_go_to_a_list_that_is_served_first(app: Celery, prefix: str) -> None:
    envelopes, queue = MessageTemplates(app), f"{prefix}.execution"

    names = [envelopes.render("thread.execution", queue, n, KEY, SHOWN)[0] for n in range(10)]

    assert names[0] == queue
    assert names == sorted(names, key=lambda name: (len(name), name)), "0 first, 9 last"
    assert len(set(names)) == 10, "4 is not in the list of 5"


def test_a_message_rendered_inside_an_effect_does_not_name_that_effect_as_its_parent(
    app: Celery, prefix: str
) -> None:
    envelopes, queue, found = MessageTemplates(app), f"{prefix}.execution", []

    @app.task(name="outer")
    def outer() -> None:
        _, rendered = envelopes.render("thread.execution", queue, 5, KEY, SHOWN)
        found.append(plain(rendered))

    outer.apply(task_id="the-outer-one")
    _, outside = envelopes.render("thread.execution", queue, 5, KEY, SHOWN)

    assert found == [plain(outside)]
    assert found[0]["headers"]["parent_id"] is None
    assert found[0]["headers"]["root_id"] == KEY


def test_threads_that_render_at_once_get_each_its_own_message(
    app: Celery, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    templates, first_is_kept, others_began = MessageTemplates(app), Event(), Event()
    keep = RenderingChannel._put

    def keep_and_wait(channel: RenderingChannel, queue: str, message: Any, **options: Any) -> None:
        keep(channel, queue, message, **options)
        if not first_is_kept.is_set():
            first_is_kept.set()
            others_began.wait(0.1)

    monkeypatch.setattr(RenderingChannel, "_put", keep_and_wait)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(templates.render, "a", f"{prefix}.execution", 5, KEY, SHOWN)
        first_is_kept.wait()
        _, second = templates.render("b", f"{prefix}.execution", 5, KEY, SHOWN)
        others_began.set()
        _, message = first.result()

    assert [plain(one)["headers"]["task"] for one in (message, second)] == ["a", "b"]


def test_two_messages_never_share_a_delivery_tag(app: Celery, prefix: str) -> None:
    envelopes, queue = MessageTemplates(app), f"{prefix}.execution"

    rendered = [envelopes.render("thread.execution", queue, 5, KEY, SHOWN)[1] for _ in range(50)]

    assert len({json.loads(message)["properties"]["delivery_tag"] for message in rendered}) == 50


@pytest.mark.parametrize(("broker", "wanted"), [(None, 2), ("amqp://guest@localhost", 7)])
def test_a_priority_means_the_same_whatever_the_broker(
    server: EmbeddedServer, prefix: str, broker: str | None, wanted: int
) -> None:
    more = {"INTERLOCK_BROKER_URL": broker} if broker else {}
    settings = settings_for(server.url, prefix, **more)
    publisher = Publisher(settings, make_app(settings, ("execution", "sweeps")), {})

    _, _, priority, _ = publisher._address(EffectMessage(KEY, "thread", "execution", 2))

    assert priority == wanted
    assert settings.fused is (broker is None)


@pytest.mark.parametrize(
    ("address", "shown", "tls"),
    [
        ("redis://:hush@h:1/2", "redis://:**@h:1/2", False),
        ("rediss://h:1/2", "redis://:**@h:1/2", True),
        ("unix:///run/store.sock", "interlock+socket:///run/store.sock", False),
    ],
)
def test_an_address_of_redis_is_used_by_our_transport_and_shown_as_one_of_redis(
    address: str, shown: str, *, tls: bool
) -> None:
    app = make_app(Settings(broker_url=address), ("execution",))

    with app.connection_for_write() as connection:
        assert connection.get_transport_cls() is Transport
        assert (connection.as_uri(), bool(connection.ssl)) == (shown, tls)


def test_another_celery_app_in_the_process_keeps_the_transport_of_kombu() -> None:
    with Celery(broker="redis://h:1/2", set_as_current=False).connection_for_write() as connection:
        assert connection.get_transport_cls() is not Transport
