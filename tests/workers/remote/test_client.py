"""What the client over HTTP does beside the verbs, which tests/workers/test_client.py tries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from opentelemetry.sdk.trace import TracerProvider
from typer.testing import CliRunner

from interlock.kernel.effect import Kind
from interlock.kernel.errors import (
    CallError,
    ForbiddenError,
    InvalidPayloadError,
    KernelError,
    StoreDownError,
    TokenRefusedError,
)
from interlock.kernel.event import Event
from interlock.kernel.store.leases import Lease
from interlock.systems.tasks.client import Tasks
from interlock.workers.api.app import create_app
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer, free_port
from interlock.workers.ops.top.snapshot import SnapshotReader, snapshot_fields
from interlock.workers.producer_message import receive
from interlock.workers.remote import batches, connection, operator_calls
from interlock.workers.remote.client import HttpClient
from interlock.workers.remote.connection import ATTEMPTS_MAX, BODY_BYTES_MAX
from interlock.workers.remote.problems import KINDS, RemoteError, error_of
from tests.damage import chances, damaged
from tests.systems.threads.threads import bring, client_of, thread_payload
from tests.workers.access.tokens import new_token


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def served(interlock: Client) -> Iterator[TestClient]:
    with TestClient(create_app(interlock), base_url="http://interlock.example") as http:
        yield http


def holder(interlock: Client, served: TestClient, *roles: str) -> HttpClient:
    """Return a client whose token has these roles."""
    return HttpClient("", new_token(interlock, *roles), http=served)


def answering(*answers: httpx2.Response | Exception) -> tuple[HttpClient, list[httpx2.Request]]:
    """Return a client of an API that answers so, and the calls that it gets."""
    calls, rest = [], list(answers)

    def handle(request: httpx2.Request) -> httpx2.Response:
        calls.append(request)
        answer = rest.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    http = httpx2.Client(transport=httpx2.MockTransport(handle))
    return HttpClient("http://api", "il_x", actor="bob", http=http), calls


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection._repeated, "sleep", lambda _: None)


def test_a_lost_answer_is_asked_for_again_with_the_same_key() -> None:
    made = httpx2.Response(201, json={"id": "one", "replayed": False})
    busy = httpx2.Response(503, json={"type": "urn:interlock:store-away", "detail": "wait"})
    client, calls = answering(httpx2.ReadTimeout("lost"), busy, made)

    assert client.submit({"x": 1}, id="one", machine="thread").id == "one"
    assert [call.headers["Idempotency-Key"] for call in calls] == ["one"] * 3
    assert calls[0].headers["Authorization"] == "Bearer il_x"
    assert "X-Interlock-Actor" not in calls[0].headers, "the token says who calls"


def test_a_call_belongs_to_the_span_that_its_program_is_in() -> None:
    client, calls = answering(*[httpx2.Response(200, json={"store_ms": 1})] * 2)
    with TracerProvider().get_tracer("shop").start_as_current_span("order") as order:
        client.now_ms()
    client.now_ms()

    made = order.get_span_context()
    expected = f"00-{made.trace_id:032x}-{made.span_id:016x}-{made.trace_flags:02x}"
    assert [call.headers.get("traceparent") for call in calls] == [expected, None]


def test_an_api_that_stays_away_or_busy_is_one_error() -> None:
    away, calls = answering(*[httpx2.ConnectError("refused")] * ATTEMPTS_MAX)
    with pytest.raises(StoreDownError, match="http://api does not answer: refused"):
        away.show("one")
    assert len(calls) == ATTEMPTS_MAX

    problem = {"type": "urn:interlock:store-away", "detail": "the store is full"}
    busy, _ = answering(*[httpx2.Response(503, json=problem)] * ATTEMPTS_MAX)
    with pytest.raises(KernelError, match="the store is full"):
        busy.show("one")


@pytest.mark.parametrize(
    "answer", [httpx2.Response(200, text="<html>"), httpx2.Response(502, json=["x"])]
)
def test_what_is_no_api_is_said_to_be_none(answer: httpx2.Response) -> None:
    client, _ = answering(answer)
    with pytest.raises(RemoteError):
        client.show("one")


@pytest.mark.parametrize(
    ("caller", "shown"),
    [
        ({"actor": "Jürgen"}, "X-Interlock-Actor is invalid: 'Jürgen' has"),
        ({"token": "secret\n"}, "the token has other characters"),
    ],
)
def test_what_no_header_can_have_is_refused_before_a_call(
    caller: dict[str, str], shown: str
) -> None:
    client = HttpClient("http://api", **caller, http=answering()[0].api.http)
    for call in (client.now_ms, client.past_events().__next__):
        with pytest.raises(InvalidPayloadError, match=shown):
            call()


def test_new_records_come_in_batches_that_one_call_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "RECORDS_MAX", 2)
    large = {"text": "y" * (BODY_BYTES_MAX // 2)}
    payloads: list[Any] = [{}, {}, {}, large, large, {"text": object()}, {}]
    new = [{"id": str(n), "payload": payload} for n, payload in enumerate(payloads)]

    found = [[each["id"] for each in batch] for batch in batches.batches(new)]
    assert found == [["0", "1"], ["2", "3"], ["4"], ["5"], ["6"]]


def test_a_batch_whose_call_fails_is_that_error_for_each_of_its_records() -> None:
    problem = {"type": "urn:interlock:forbidden", "detail": "may not"}
    client, calls = answering(httpx2.Response(403, json=problem))
    done = client.submit_many([{"id": "a"}, {"id": "b c"}, {"id": "d"}], machine="thread")

    assert [(one.id, type(one.error).__name__) for one in done] == [
        ("a", "ForbiddenError"),
        ("b c", "InvalidIdError"),
        ("d", "ForbiddenError"),
    ]
    assert len(calls) == 1


def test_a_batch_that_the_api_finds_too_large_is_sent_in_halves() -> None:
    too_large = httpx2.Response(413, json={"type": "urn:interlock:too-large", "detail": "fewer"})
    made = [httpx2.Response(201, json={"id": name, "replayed": False}) for name in "abc"]
    client, calls = answering(too_large, made[0], too_large, *made[1:])
    done = client.submit_many([{"id": name} for name in "abc"], machine="thread")

    assert [(one.id, one.error) for one in done] == [("a", None), ("b", None), ("c", None)]
    assert [call.url.path for call in calls] == [
        "/v1/records:batch",
        "/v1/records",
        "/v1/records:batch",
        "/v1/records",
        "/v1/records",
    ]


def test_past_events_that_break_off_are_an_error() -> None:
    class Broken(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"\n"
            raise httpx2.ReadError("reset")

    headers = {"Content-Type": "application/x-ndjson"}
    client, _ = answering(httpx2.Response(200, headers=headers, stream=Broken()))
    with pytest.raises(StoreDownError, match="did not send all events: reset"):
        list(client.past_events())


@pytest.mark.parametrize("body", ["x", [1], {"machines": 1, "lines": [1], "next": ""}])
def test_an_answer_of_another_shape_is_said_to_be_of_another_program(body: Any) -> None:
    verbs: list[Callable[[HttpClient], Any]] = [
        lambda client: client.submit({"x": 1}, id="one", machine="thread"),
        lambda client: client.show("one"),
        lambda client: client.explain("one", "t"),
        lambda client: client.history("one"),
        lambda client: client.cards_of("one") and client.describe("one"),
        lambda client: client.cards(),
        lambda client: client.list(),
        lambda client: client.counts(),
        lambda client: client.mail("one"),
        lambda client: client.logs("one"),
        lambda client: client.pause("one"),
        lambda client: client.now_ms(),
        lambda client: client.change_many("pause", machine="thread"),
        lambda client: list(client.past_events()),
        lambda client: client.rejected(),
        lambda client: client.rejected_message("1-1"),
        lambda client: client.wait("one", timeout_s=1),
        lambda client: next(client.events()),
        lambda client: next(client.events(after="1-0")),
    ]
    for verb in verbs:
        client, _ = answering(httpx2.Response(200, json=body))
        with pytest.raises(RemoteError, match=r"http://api answers in another shape .* correct"):
            verb(client)


def test_it_waits_as_long_as_the_api_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(connection._repeated, "sleep", slept.append)
    busy = httpx2.Response(503, headers={"Retry-After": "5"}, json={})
    client, _ = answering(busy, httpx2.Response(200, json={"store_ms": 1}))

    assert client.now_ms() == 1
    assert slept == [5]


def test_a_field_that_a_later_version_has_added_is_left_out() -> None:
    found = {"trigger": "t", "state": "s", "target": "", "sentence": "x", "colour": "blue"}
    client, _ = answering(httpx2.Response(200, json=found))

    assert client.explain("one", "t").sentence == "x"


@pytest.mark.parametrize("raised", KINDS)
def test_every_problem_becomes_its_error_again(raised: type[KernelError]) -> None:
    body = {"type": f"urn:interlock:{KINDS[raised].name}", "detail": "why", "problems": ["a"]}
    error = error_of(body)

    assert (type(error), str(error)) == (raised, "why")
    assert vars(error)["problems"] == ("a",)


def test_a_body_that_json_would_change_is_refused() -> None:
    client, calls = answering()
    with pytest.raises(InvalidPayloadError):
        client.fire("one", "begin", {"x": {1: 2}})
    assert calls == []


def test_roles_bound_what_the_client_may_do(interlock: Client, served: TestClient) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    viewer, approver = (holder(interlock, served, role) for role in ("viewer", "approver"))
    proposal = viewer.show("one").proposal

    with pytest.raises(ForbiddenError, match="may not answer cards"):
        viewer.decide("one", "approve", proposal=proposal)
    assert approver.decide("one", "approve", proposal=proposal).state == "executing"
    with pytest.raises(TokenRefusedError):
        HttpClient("", "il_none", http=served).show("one")
    assert approver.me()["name"] == "ann"


def test_nobody_gets_the_token_of_a_lease(interlock: Client, served: TestClient) -> None:
    bring(interlock, "one", "executing")
    entry = next(one for one in interlock.show("one").entries if one.kind is Kind.STATE)
    effect, leases = interlock.dispatch.effect("thread", entry.name), interlock.dispatch.leases
    lease = leases.claim(entry.key("one"), effect, nonce="n", holder="test", schema=9)
    assert isinstance(lease, Lease)
    viewer = holder(interlock, served, "viewer")

    texts = [
        served.get(f"/v1/records/one{verb}", headers=viewer.api.headers).text for verb in VERBS
    ]
    assert all(entry.suffix in text for text in texts[:2])
    assert [verb for verb, text in zip(VERBS, texts, strict=True) if lease.token in text] == []


VERBS = ("", ":description", ":history", ":cards", ":why-not")


def test_every_trigger_is_explained(interlock: Client, served: TestClient) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    viewer = holder(interlock, served, "viewer")
    found = {each.trigger: each for each in viewer.explain_all("one")}

    assert set(found) == set(interlock.machines["thread"].triggers)
    assert found["dismissed_by_user"].target == "dismissed"
    assert "not allowed in awaiting_confirmation" in found["cleanup_succeeded"].sentence
    needed = [each.sentence for each in found.values() if " is invalid: " in each.sentence]
    assert needed, "some need a payload, and say so"
    assert [each.sentence for each in interlock.explain_all("one")] == [
        each.sentence for each in found.values()
    ]


@pytest.fixture
def command(
    interlock: Client, served: TestClient, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Return a function that runs a command which reaches the API, as an operator."""
    token = holder(interlock, served, "operator").api.headers["Authorization"].split()[1]
    monkeypatch.setenv("INTERLOCK_API_URL", "http://interlock.example")
    monkeypatch.setenv("INTERLOCK_API_TOKEN", token)
    monkeypatch.setattr(httpx2, "Client", lambda **_: served)

    def run(*words: object, code: int = 0) -> Any:
        answered = CliRunner().invoke(app, [*map(str, words), "--json"])
        assert answered.exit_code == code, answered.output
        return json.loads(answered.stdout)

    return run


def test_commands_call_the_api_that_the_settings_name(
    interlock: Client, command: Callable[..., Any]
) -> None:
    command("submit", "--title", "Call the dentist", "--id", "call")
    assert command("show", "call")["title"] == "Call the dentist"
    assert command("list", "--text", "dentist")["records"][0]["id"] == "call"
    assert command("history", "call")[0]["cause"]["actor"] == "ann"
    assert command("explain", "call", "cleanup_requested")["id"] == "call"
    # The name of the token is in the log, so that none is said to be only claimed.
    assert command("pause", "call", "--as", "eve")["answer"] == "paused"
    assert command("resume", "call")["answer"] == "resumed"
    assert command("cancel", "call")["state"] == "dismissed"
    bring(interlock, "two", "awaiting_confirmation")
    (card,) = command("cards")
    decided = command("decide", "two", "approve", "--proposal", card["proposal"])
    assert decided["state"] == "executing"
    assert command("whoami") == {
        "name": "ann",
        "proved": True,
        "roles": ["operator"],
        "machines": [],
        "allowed": ["decide", "operate", "read", "run", "submit"],
    }


def test_an_operator_watches_and_exports_and_sends_mail_over_the_api(
    interlock: Client, command: Callable[..., Any], tmp_path: Path
) -> None:
    interlock.submit({"repo": "/nowhere", "command": "true"}, id="owl/1", machine="loop")
    tasks = Tasks(interlock)
    for name in ("one", "two"):
        tasks.submit({"title": name}, backlog="b", name=name)
    tasks.claim("b/one", owner="ann")

    sent = command("agent", "send", "owl", "look", "out", "--urgent")
    (mail,) = interlock.dispatch.inboxes.after("owl/1", "0-0", 10)
    assert (sent["id"], sent["answer"]) == (mail.id, "sent")
    assert (mail.fields["sender"], mail.fields["text"], mail.fields["urgent"]) == (
        "ann",
        "look out",
        True,
    )
    top, here = command("top", "--backlog", "b"), SnapshotReader(interlock, backlog="b").read()
    assert top.keys() == snapshot_fields(here).keys()
    tasks = here.parts["tasks"]
    assert (top["oldest"]["id"], top["tasks"], top["looks"]) == ("b/two", tasks.tasks, tasks.looks)
    assert [(row["task"], row["look"]) for row in top["lines"]] == [("b/one", tasks.lines[0].look)]
    assert command("events", "owl", "--out", tmp_path / "events")["events"] == 1
    (line,) = (tmp_path / "events").read_text().splitlines()
    assert json.loads(line)["entity_id"] == "owl/1"
    refused = command("events", "nobody", "--out", tmp_path / "none", code=1)
    assert refused["error"] == "UnknownRecordError"


def test_an_operator_tries_rejected_messages_again_over_the_api(
    interlock: Client, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_calls, "REJECTED_PAGE", 2)
    for name in ("late", "gone", "never"):
        request = {"id": f"m-{name}", "record": name, "actor": "shop"}
        assert receive(interlock, "cancel", [request], {})["answer"] == "rejected"
    bring(interlock, "late", "awaiting_confirmation")

    never, gone, late = (each["id"] for each in command("rejected", "list"))
    assert [each["id"] for each in command("rejected", "list", "--limit", "1")] == [never]
    assert json.loads(command("rejected", "show", late)["body"])["record"] == "late"
    assert command("rejected", "drop", gone) == [{"id": gone, "answer": "dropped"}]
    done, refused = command("rejected", "replay", "--all", code=1)

    assert (done["id"], done["answer"], done["state"]) == (late, "accepted", "dismissed")
    assert (refused["id"], refused["answer"]) == (never, "rejected")
    assert "no record 'never'" in refused["reason"]
    last = [line for line in interlock.history("late") if isinstance(line, Event)][-1]
    assert (last.cause.actor, last.cause.codes) == ("shop", ("replayed-by:ann",))
    assert "there is no rejected message" in command("rejected", "show", late, code=1)["message"]
    assert "'x' is no id" in command("rejected", "show", "x", code=1)["message"]


def test_an_admin_makes_lists_and_revokes_tokens_over_the_api(
    interlock: Client,
    served: TestClient,
    command: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "may not make and revoke access tokens" in command("token", "list", code=1)["message"]
    monkeypatch.setenv("INTERLOCK_API_TOKEN", new_token(interlock, "admin"))

    made = command("token", "create", "shop", "--role", "producer", "--machine", "thread")

    assert HttpClient("", made["token"], http=served).me()["machines"] == ["thread"]
    kept = {token.id: token for token in interlock.dispatch.access_tokens.all()}
    assert (kept[made["id"]].holder, kept[made["id"]].made_by) == ("shop", "ann")
    assert made["id"] in [one["id"] for one in command("token", "list")]
    assert command("token", "revoke", made["id"]) == {"id": made["id"], "answer": "revoked"}
    with pytest.raises(TokenRefusedError):
        HttpClient("", made["token"], http=served).me()
    assert "no access token 'none'" in command("token", "revoke", "none", code=1)["message"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_command_that_needs_the_store_says_so(
    command: Callable[..., Any],
    server: EmbeddedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_there: bool,
) -> None:
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path))
    if is_there:
        monkeypatch.setenv("INTERLOCK_STORE_URL", server.url)
    assert "unset INTERLOCK_API_URL" in command("doctor", code=1)["message"]


def test_who_reaches_the_store_has_a_claimed_name(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_STORE_URL", server.url)
    answered = CliRunner().invoke(app, ["whoami", "--as", "ann", "--json"])

    assert json.loads(answered.output) == {
        "name": "ann",
        "proved": False,
        "reaches": "the store itself",
    }


def test_a_submission_that_makes_no_sense_is_refused_before_it_is_sent() -> None:
    client = HttpClient(f"http://127.0.0.1:{free_port()}")
    for fields in ({"id": "a b"}, {"priority": 10}):
        with pytest.raises(CallError):
            client.submit(thread_payload(), machine="thread", **fields)


@pytest.mark.fuzz
@given(chance=chances)
def test_a_problem_that_is_nearly_right_is_an_error_with_a_sentence(chance: Random) -> None:
    kind = chance.choice(list(KINDS.values()))
    whole = {"type": f"urn:interlock:{kind.name}", "detail": "it is wrong", "problems": ["a"]}
    wait = {"Retry-After": chance.choice(["1", "9" * 5_000, "-1", "soon"])}
    body = json.dumps(damaged(whole, chance)).encode()
    client, calls = answering(*[httpx2.Response(503, content=body, headers=wait)] * ATTEMPTS_MAX)

    with pytest.raises(KernelError):
        client.show("one")
    assert len(calls) == ATTEMPTS_MAX
