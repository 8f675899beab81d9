"""A log is followed over HTTP: each line once, also by a listener that comes again."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPResponse
from typing import Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from fastapi import FastAPI
from starlette.types import Message

from interlock.kernel.errors import StoreDownError
from interlock.kernel.exported_event import LifecycleEvent
from interlock.kernel.record import partition_of
from interlock.kernel.store.feed import text_of
from interlock.kernel.store.state_reads import RecordInState
from interlock.workers.access.roles import Caller, Role
from interlock.workers.api import event_stream, events, followers
from interlock.workers.api.app import create_app
from interlock.workers.api.events import EXPORTS_OF_ONE_MAX
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.event_export import EventExport
from interlock.workers.remote.client import HttpClient
from tests.systems.threads.threads import bring, client_of, thread_payload
from tests.waiting import until
from tests.workers.access.tokens import new_token
from tests.workers.api.serving import served


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix, auth="none")


@pytest.fixture
def address(interlock: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(followers, "POLL_S", 0.01)
    with served(interlock) as url:
        yield f"{url}/v1/records"


@contextmanager
def listening(
    address: str, record_id: str = "", last: str = "", query: str = "", token: str = ""
) -> Iterator[HTTPResponse]:
    """Listen to a record; without one, to all events."""
    headers = {"Last-Event-ID": last} if last else {}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    every = address.replace("/records", f"/events?{query}")
    path = f"{address}/{record_id}:events" if record_id else every
    request = Request(path, headers=headers)  # noqa: S310 - our own
    with urlopen(request, timeout=180) as answer:  # noqa: S310 - as above
        yield answer


def events_of(answer: HTTPResponse, number: int) -> list[tuple[str, str, dict[str, Any]]]:
    """Read this many events: the id, the kind and the data of each."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    while len(found) < number:
        fields: dict[str, str] = {}
        while line := answer.readline().decode().rstrip("\r\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        if "data" in fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


def test_a_listener_gets_the_log_and_then_each_line_as_it_comes(
    interlock: Client, address: str
) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    before = len(interlock.history("one"))
    with listening(address, "one") as answer:
        first = events_of(answer, before)
        interlock.pause("one", reason="wait")
        (paused,) = events_of(answer, 1)
        interlock.cancel("one", reason="enough")
        (ended,) = events_of(answer, 1)

    assert [line["line"] for _, _, line in first[:1]] == ["event"]
    assert (paused[1], paused[2]["kind"]) == ("note", "pause")
    assert (ended[1], ended[2]["target"]) == ("event", "dismissed")
    with listening(address, "one", last=paused[0]) as again:
        assert events_of(again, 1) == [ended]


def test_a_look_that_fails_does_not_end_the_following(
    interlock: Client,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    views = interlock.dispatch.views
    read = views.lines_after

    def broken(*_: Any) -> Any:
        monkeypatch.setattr(views, "lines_after", read)
        raise ValueError("a line that is no JSON")

    monkeypatch.setattr(views, "lines_after", broken)
    with listening(address, "one") as answer:
        assert events_of(answer, 1)[0][2]["trigger"] == "created"
    assert "logs could not be read for listeners" in caplog.text


def test_who_listens_at_nothing_or_from_nowhere_is_refused(interlock: Client, address: str) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    for record_id, last, status in (("nobody", "", 404), ("one", "soon", 422)):
        with pytest.raises(HTTPError) as refused, listening(address, record_id, last):
            pass
        assert refused.value.code == status
        refused.value.close()


def test_there_is_room_for_a_number_of_listeners(
    interlock: Client, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "LISTENERS_MAX", 1)
    bring(interlock, "one", "awaiting_confirmation")
    with listening(address, "one") as answer:
        events_of(answer, 1)
        with pytest.raises(HTTPError) as refused, listening(address, "one"):
            pass
        assert (refused.value.code, refused.value.headers["Retry-After"]) == (503, "5")
        refused.value.close()

    def has_room() -> bool:
        try:
            with listening(address, "one") as again:
                return bool(events_of(again, 1))
        except HTTPError as full:
            full.close()
            return False

    until(has_room, what="the place of the listener that left is free")


def scope_of(path: str, query: bytes = b"") -> dict[str, Any]:
    """Return the scope of a request to read what is at a path."""
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": query,
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
    }


def listened_to(api: FastAPI, take: Callable[[Message], Awaitable[None]]) -> None:
    """Let the application send the stream of all events to who takes its messages so."""
    asked: list[Message] = [{"type": "http.request"}]

    async def asks() -> Message:
        return asked.pop() if asked else await asyncio.Future()

    asyncio.run(asyncio.wait_for(api(scope_of("/v1/events"), asks, take), 60))


def test_who_leaves_before_the_first_message_keeps_no_place(interlock: Client) -> None:
    api = create_app(interlock)
    sent: list[Message] = []

    async def leaves(message: Message) -> None:
        sent.append(message)
        if message["type"] == "http.response.body":
            raise OSError("it has left")

    with suppress(BaseExceptionGroup, OSError):
        listened_to(api, leaves)

    assert [each.get("status") for each in sent] == [200, None], sent
    assert api.state.followers.listeners == {}


def test_who_takes_nothing_is_cut_off(
    interlock: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_stream, "SEND_S", 0.1)

    async def takes_only_the_head(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Future()

    listened_to(create_app(interlock), takes_only_the_head)

    cut_off = "producer at 127.0.0.1:1 is cut off: it took nothing of its stream of events for 0.1"
    assert cut_off in caplog.text


def test_a_log_that_cannot_be_read_ends_its_own_listeners_only(
    interlock: Client, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    for record_id in ("good", "bad"):
        bring(interlock, record_id, "awaiting_confirmation")
    store: Any = interlock.dispatch.client
    store.xadd(interlock.dispatch.keys.log("bad"), {"event": "no JSON", "at": "1"})

    with listening(address, "bad") as ends, listening(address, "good") as goes_on:
        assert ends.read() == b""
        assert events_of(goes_on, 1)[0][2]["trigger"] == "created"
    assert "the log of bad cannot be read after 0-0" in caplog.text


def test_one_look_reads_for_all_who_are_at_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "READ_AT_ONCE", 1)
    room, ann = followers.Followers(cast("Any", None)), Caller("ann", (Role.VIEWER,))
    one, same, other = (room.listener(cast("Any", None), at, ann) for at in ("a", "a", "b"))
    room.listeners = dict.fromkeys([one, same, other])

    assert room._next_listeners() == [one, same]


def test_one_caller_has_not_all_places(
    interlock: Client, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "LISTENERS_OF_ONE_MAX", 1)
    bring(interlock, "one", "awaiting_confirmation")
    with listening(address, "one") as answer:
        events_of(answer, 1)
        with pytest.raises(HTTPError) as refused, listening(address, "one"):
            pass
        assert refused.value.code == 503
        refused.value.close()


def test_a_stream_ends_after_a_while_and_its_listener_comes_back(
    interlock: Client, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    lines, last, found = len(interlock.history("one")), "", list[dict[str, Any]]()
    for listen_s in (1, 10, 60):  # on a slow computer there may be nothing in the first stream
        monkeypatch.setattr(followers, "LISTEN_S", listen_s)
        with listening(address, "one", last=last) as answer:
            for line in answer.read().decode().splitlines():
                name, _, value = line.partition(": ")
                last = value if name == "id" else last
                found += [json.loads(value)] if name == "data" else []
        if len(found) >= lines:
            break
    interlock.pause("one")
    monkeypatch.setattr(followers, "LISTEN_S", 60)
    with listening(address, "one", last=last) as again:
        assert events_of(again, 1)[0][2]["kind"] == "pause"
    assert len(found) == lines


def test_a_stream_ends_when_its_token_is_revoked_and_no_other_does(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "POLL_S", 0.01)
    interlock = client_of(server.url, prefix)
    bring(interlock, "one", "awaiting_confirmation")
    revoked, kept, before = (new_token(interlock, Role.VIEWER) for _ in range(3))
    with served(interlock) as url:
        address = f"{url}/v1/records"
        with (
            listening(address, "one", token=revoked) as ends,
            listening(address, "one", token=kept) as goes_on,
        ):
            lines = len(interlock.history("one"))
            events_of(goes_on, lines)
            for token in (before, revoked):
                interlock.dispatch.access_tokens.revoke(token.split("_")[1], "root")
            events_of(ends, lines)
            assert ends.read() == b""
            interlock.pause("one")
            assert events_of(goes_on, 1)[0][2]["kind"] == "pause"


# --- all events ----------------------------------------------------------------------------------


def test_who_comes_again_while_others_commit_gets_each_event_once(
    interlock: Client, address: str
) -> None:
    with listening(address) as answer:
        last = position_of(answer)

    def submit(writer: int) -> None:
        for number in range(4):
            interlock.submit(thread_payload(), machine="thread", id=f"{writer}-{number}")

    found: list[tuple[str, int]] = []
    with ThreadPoolExecutor(3) as pool:
        writing = [pool.submit(submit, writer) for writer in range(3)]
        for number in (1, 5, 3, 2, 6, 7):
            with listening(address, last=last) as answer:
                rows = events_of(answer, number)
            found += [(data["entity_id"], data["version"]) for _, _, data in rows]
            last = rows[-1][0]
        for one in writing:
            one.result()

    assert sorted(found) == sorted(
        (f"{writer}-{number}", version)
        for writer in range(3)
        for number in range(4)
        for version in (1, 2)
    )


def test_a_listener_gets_the_events_of_machines_that_it_wants_and_may_see(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "POLL_S", 0.01)
    interlock = client_of(server.url, prefix)
    every, tasks = (
        new_token(interlock, "viewer"),
        new_token(interlock, "viewer", machines=("task",)),
    )
    with served(interlock) as url:
        address = f"{url}/v1/records"
        with (
            listening(address, query="machine=task", token=every) as wants,
            listening(address, token=tasks) as may,
            listening(address, token=every, query="envelope=cloudevents") as both,
        ):
            begin = position_of(wants)
            assert (position_of(may), position_of(both)) == (begin, begin)
            interlock.submit(thread_payload(), machine="thread", id="one")
            # What is left out moves the position on: so it does not grow too old to come again.
            assert position_of(wants) != begin
            task = {"title": "fix it", "text": ""}
            interlock.submit(task, machine="task", id="b/two")
            for answer in (wants, may):
                assert events_of(answer, 1)[0][2]["entity_id"] == "b/two"
            clouds = [data for _, _, data in events_of(both, 3)]
        assert [each["id"] for each in clouds] == ["one:1", "one:2", "b/two:1"]
        source = f"/interlock/{interlock.settings.namespace}"
        assert {(each["source"], each["type"]) for each in clouds} == {(source, "interlock.event")}
        assert clouds[0]["data"]["entity_type"] == "thread"
        for query, last, status in (("machine=thread", "", 404), ("", "soon", 422)):
            with (
                pytest.raises(HTTPError) as refused,
                listening(address, last=last, query=query, token=tasks),
            ):
                pass
            assert refused.value.code == status
            refused.value.close()


def test_an_export_during_which_the_store_goes_away_is_cut_short_in_one_line_of_the_log(
    interlock: Client,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(logging.getLogger("uvicorn"), "propagate", True)
    bring(interlock, "one", "awaiting_confirmation")

    def goes_away(export: EventExport) -> Iterator[LifecycleEvent]:
        yield from export.new()
        raise StoreDownError("the store does not answer")

    monkeypatch.setattr(EventExport, "all", goes_away)
    monkeypatch.setattr(events, "LINES_AT_ONCE", 1)
    exported = HttpClient(address.removesuffix("/v1/records"), actor="ann").past_events()

    assert next(exported).entity_id == "one"
    with pytest.raises(StoreDownError, match="did not send all events"):
        list(exported)
    assert caplog.messages == [
        "an export of events for ann is cut short: the store does not answer"
    ]


def test_exports_that_begin_together_share_the_places_and_end_when_their_callers_leave(
    interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    api, statuses, is_over = create_app(interlock), list[int](), threading.Event()
    rows = interlock.dispatch.views.list_in_state_since

    def without_end(*state: Any) -> Iterator[RecordInState]:
        while not is_over.wait(0.01):
            yield from rows(*state)

    monkeypatch.setattr(interlock.dispatch.views, "list_in_state_since", without_end)

    async def export(have_left: asyncio.Event) -> None:
        asked: list[Message] = [{"type": "http.request"}]

        async def asks() -> Message:
            if not asked:
                await have_left.wait()
            return asked.pop() if asked else {"type": "http.disconnect"}

        async def take(message: Message) -> None:
            statuses.extend([message["status"]] if "status" in message else [])
            if len(statuses) == EXPORTS_OF_ONE_MAX + 1:
                have_left.set()

        await api(scope_of("/v1/events:export", b"scope=one/nobody"), asks, take)

    async def exports() -> None:
        have_left = asyncio.Event()
        await asyncio.gather(*(export(have_left) for _ in range(EXPORTS_OF_ONE_MAX + 1)))
        while api.state.exports.callers:  # noqa: ASYNC110 - no event says when a place is free
            await asyncio.sleep(0.01)

    try:
        asyncio.run(asyncio.wait_for(exports(), 60))
    finally:
        is_over.set()
    assert sorted(statuses) == [*[200] * EXPORTS_OF_ONE_MAX, 503]


def test_an_event_that_cannot_be_read_is_left_out(interlock: Client) -> None:
    version = bring(interlock, "bad", "awaiting_confirmation").version + 1
    keys, store = interlock.dispatch.keys, interlock.dispatch.client
    begin = text_of(interlock.dispatch.feed.newest())
    deep = {"event": "[" * 100_000, "at": "1"}
    store.xadd(keys.log("bad"), cast("Any", deep), id=f"{version}-0")
    listed = {"record": "bad", "machine": "thread", "version": version}
    store.xadd(keys.feed(partition_of("bad")), cast("Any", listed))
    interlock.submit(thread_payload(), machine="thread", id="good")

    assert next(interlock.events(after=begin)).event.entity_id == "good"


def test_who_was_away_for_too_long_is_told_so(interlock: Client, address: str) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    with listening(address) as answer:
        last = position_of(answer)
    store: Any = interlock.dispatch.client
    store.unlink(interlock.dispatch.keys.feed(partition_of("one")))

    with pytest.raises(HTTPError) as refused, listening(address, last=last):
        pass
    assert (refused.value.code, json.load(refused.value)["type"]) == (410, "urn:interlock:missed")
    refused.value.close()


def position_of(answer: HTTPResponse) -> str:
    """Read an event without data, and any pings before it; return the position that it has."""
    while True:
        fields: dict[str, str] = {}
        while line := answer.readline().decode().rstrip("\r\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        if list(fields) != [""]:  # a ping is a comment, whose name is empty
            break
    assert list(fields) == ["id"]
    return fields["id"]
