"""The HTTP API does what the client does, and answers every refusal with a problem."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from interlock.kernel import errors
from interlock.kernel.errors import KernelError, StoreDownError
from interlock.kernel.event import Event
from interlock.workers.api.app import create_app
from interlock.workers.api.models import BODY_BYTES_MAX
from interlock.workers.api.problems import MEDIA_TYPE
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.config import Settings, SettingsError
from interlock.workers.console.cli import check_loopback
from interlock.workers.engine.kept import Kept
from interlock.workers.engine.quota import RecordQuota
from interlock.workers.gateways.capabilities import registry
from interlock.workers.gateways.capabilities.registry import open_registry
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.remote.problems import KINDS, kind_of
from tests.any_text import any_text
from tests.conftest import NewProxy
from tests.damage import chances, damaged
from tests.systems.threads.threads import bring, client_of, thread_payload

Call = Callable[..., Any]


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix, auth="none")


@pytest.fixture
def api(interlock: Client) -> FastAPI:
    return create_app(interlock)


@pytest.fixture
def http(api: FastAPI) -> Iterator[TestClient]:
    with TestClient(api, base_url="http://127.0.0.1", raise_server_exceptions=False) as opened:
        yield opened


def new_thread(http: TestClient, key: str, **fields: Any) -> Any:
    body = {"machine": "thread", "payload": thread_payload(**fields)}
    return http.post("/v1/records", json=body, headers={"Idempotency-Key": key})


def creator(interlock: Client, record_id: str) -> str:
    created = interlock.history(record_id)[0]
    assert isinstance(created, Event)
    return created.cause.actor


def problem(answer: Any, status: int, name: str) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()
    assert answer.status_code == status, found
    assert answer.headers["Content-Type"] == MEDIA_TYPE
    assert (found["type"], found["status"]) == (f"urn:interlock:{name}", status)
    return found


def test_a_record_is_created_once_under_its_key(http: TestClient, interlock: Client) -> None:
    first, again = new_thread(http, "shop-1"), new_thread(http, "shop-1")

    assert (first.status_code, first.json()) == (201, {"id": "shop-1", "replayed": False})
    assert first.headers["Location"] == "/v1/records/shop-1"
    assert (again.status_code, again.json()["replayed"]) == (200, True)
    described = http.get("/openapi.json").json()["paths"]["/v1/records"]["post"]["responses"]
    assert {"200", "201"} <= set(described)
    assert creator(interlock, "shop-1") == "producer"
    problem(new_thread(http, "shop-1", title="Another"), 409, "id-taken")
    problem(http.post("/v1/records", json={}), 422, "invalid-request")


def test_a_record_beyond_the_quota_is_a_problem_for_later(
    http: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = RecordQuota(interlock.dispatch.views, interlock.dispatch.machines, 1)
    monkeypatch.setattr(interlock.dispatch, "quota", full)
    new_thread(http, "shop-1")
    refused = new_thread(http, "shop-2")

    assert "INTERLOCK_RECORDS_MAX=1" in problem(refused, 409, "records-max")["detail"]
    assert refused.headers["Retry-After"] == "60"


def test_the_log_has_the_name_that_a_caller_claims(http: TestClient, interlock: Client) -> None:
    body = {"machine": "thread", "payload": thread_payload()}
    headers = {"Idempotency-Key": "one", "X-Interlock-Actor": "ann"}
    http.post("/v1/records", json=body, headers=headers)

    assert creator(interlock, "one") == "ann"
    answer = http.get("/v1/records/one", headers={"X-Interlock-Actor": "a b"})
    assert "X-Interlock-Actor" in problem(answer, 422, "invalid-payload")["detail"]


def test_a_machine_that_only_interlock_creates_is_refused(http: TestClient) -> None:
    body = {"machine": "turn", "payload": {}}
    answer = http.post("/v1/records", json=body, headers={"Idempotency-Key": "b/x"})

    assert "only Interlock creates a turn" in problem(answer, 422, "invalid-payload")["detail"]


def test_several_records_are_created_each_by_itself(http: TestClient) -> None:
    good = {"machine": "thread", "payload": thread_payload(), "id": "good"}
    bad = {"machine": "washing", "payload": {}, "id": "bad"}

    items = http.post("/v1/records:batch", json={"records": [bad, good, good]}).json()["items"]

    assert [item["answer"] for item in items] == ["", "accepted", "known"]
    assert items[0]["problem"]["type"] == "urn:interlock:unknown-machine"


def test_a_record_is_shown_with_its_version(http: TestClient, interlock: Client) -> None:
    record = bring(interlock, "one", "awaiting_confirmation")

    shown = http.get("/v1/records/one")

    assert shown.headers["ETag"] == f'"{record.version}"'
    assert shown.json()["state"] == "awaiting_confirmation"
    assert (shown.json()["title"], shown.json()["proposal"]) == ("Paper", record.proposal)
    problem(http.get("/v1/records/nobody"), 404, "unknown-record")


def test_the_addresses_of_a_record_below_others_have_its_slashes(
    http: TestClient, interlock: Client
) -> None:
    interlock.submit({"title": "x"}, id="b/one", machine="task")

    assert http.get("/v1/records/b/one").json()["id"] == "b/one"
    assert http.get("/v1/records/b/one:history").json()["lines"][0]["record_id"] == "b/one"
    cancelled = http.post("/v1/records/b/one:cancel", json={"reason": "enough"})
    assert cancelled.json()["state"] == "cancelled"
    assert http.get("/v1/records", params={"id": "b/"}).json()["records"][0]["id"] == "b/one"


def test_lists_come_page_by_page(http: TestClient) -> None:
    for n in range(3):
        new_thread(http, f"t{n}", title=f"Order {n}")
    first = http.get("/v1/records", params={"limit": 2, "order": "oldest"}).json()
    rest = {"limit": 2, "order": "oldest", "cursor": first["next"]}

    assert [row["id"] for row in first["records"]] == ["t0", "t1"]
    assert [row["id"] for row in http.get("/v1/records", params=rest).json()["records"]] == ["t2"]
    found = http.get("/v1/records", params={"text": "order 1"}).json()["records"]
    assert [(row["id"], row["title"]) for row in found] == [("t1", "Order 1")]
    late = {"created_from_ms": found[0]["created_ms"] + 1_000_000}
    assert http.get("/v1/records", params=late).json() == {"records": [], "next": ""}
    problem(http.get("/v1/records", params={"cursor": "x"}), 400, "bad-call")
    problem(http.get("/v1/records", params={"limit": 501}), 422, "invalid-request")
    problem(http.get("/v1/records", params={"machine": "washing"}), 404, "unknown-machine")
    for asked, number in ({"machine": "thread"}, 3), ({"text": "order 1", "parent": ""}, 1):
        counted = http.get("/v1/counts", params=asked).json()
        assert (sum(counted["machines"]["thread"].values()), counted["more"]) == (number, False)
    problem(http.get("/v1/counts", params={"text": "--"}), 400, "bad-call")


def test_a_card_is_answered_about_the_version_that_was_seen(
    http: TestClient, interlock: Client
) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    (card,) = http.get("/v1/cards").json()["cards"]
    assert http.get("/v1/records/one:cards").json() == [card]
    seen = http.get("/v1/records/one").headers["ETag"]
    decision = {"choice": "reject", "answer": {"reason": "no"}, "proposal": card["proposal"]}

    def decide(**headers: str) -> Any:
        return http.post("/v1/records/one:decide", json=decision, headers=headers)

    problem(decide(), 428, "no-version")
    stale = problem(decide(**{"If-Match": '"1"'}), 412, "stale")
    assert stale["current"]["state"] == "awaiting_confirmation"
    with_key = {"If-Match": seen, "Idempotency-Key": "k1"}
    done = decide(**with_key)
    assert (done.status_code, done.json()["state"]) == (200, "dismissed")
    assert done.headers["ETag"] == f'"{done.json()["version"]}"'
    assert decide(**with_key).json()["state"] == "dismissed", "it is repeated after a lost reply"
    other = problem(decide(**{"If-Match": done.headers["ETag"]}), 412, "stale")
    assert other["current"]["state"] == "dismissed"


def test_a_trigger_is_fired_and_explained(http: TestClient, interlock: Client) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    why = http.post("/v1/records/one:explain", json={"trigger": "cleanup_succeeded"}).json()
    assert (why["target"], "not allowed in awaiting_confirmation" in why["sentence"]) == ("", True)
    firing = {"trigger": "dismissed_by_user", "payload": {"reason": "enough"}}

    def fire(**headers: str) -> Any:
        return http.post("/v1/records/one:fire", json=firing, headers=headers)

    problem(fire(**{"If-Match": '"1"'}), 412, "stale")
    seen = http.get("/v1/records/one").headers["ETag"]
    assert fire(**{"If-Match": seen, "Idempotency-Key": "k"}).json()["state"] == "dismissed"
    problem(fire(), 409, "illegal-transition")
    firing["trigger"] = "vanish"
    problem(fire(), 404, "unknown-trigger")


def test_a_call_about_an_older_version_is_refused_and_a_repeated_one_is_not(
    http: TestClient, interlock: Client
) -> None:
    seen = f'"{bring(interlock, "one", "awaiting_confirmation").version}"'
    for verb in ("cancel", "pause", "resume", "retry"):
        old = http.post(f"/v1/records/one:{verb}", json={}, headers={"If-Match": '"1"'})
        problem(old, 412, "stale")
    firing = {"trigger": "dismissed_by_user", "payload": {"reason": "enough"}}
    headers = {"If-Match": seen, "Idempotency-Key": "k"}

    for _ in range(2):
        done = http.post("/v1/records/one:fire", json=firing, headers=headers)
        assert (done.status_code, done.json()["state"]) == (200, "dismissed")


def test_the_log_is_read_page_by_page(http: TestClient, interlock: Client) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    interlock.pause("one")
    interlock.resume("one")
    lines: list[dict[str, Any]] = []
    after = "0-0"
    while after:
        page = http.get("/v1/records/one:history", params={"after": after, "limit": 2}).json()
        assert len(page["lines"]) <= 2
        lines += page["lines"]
        after = page["next"]

    whole = http.get("/v1/records/one:history", params={"limit": 1_000}).json()
    assert (lines, whole["next"]) == (whole["lines"], "")
    assert len(lines) == len(interlock.history("one"))
    assert lines[0]["because"].startswith("it")


def test_a_head_is_answered_as_a_get_without_the_body(http: TestClient, interlock: Client) -> None:
    bring(interlock, "one", "awaiting_confirmation")

    for path in ("/v1/records/one", "/v1/records", "/v1/cards", "/healthz", "/metrics"):
        found, head = http.get(path), http.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers.get("ETag") == found.headers.get("ETag")
    assert http.head("/v1/records/two").status_code == 404
    assert http.head("/v1/records:batch").status_code == 405
    events = http.head("/v1/records/one:events")
    assert (events.content, events.headers["content-type"].partition(";")[0]) == (
        b"",
        "text/event-stream",
    )


def test_the_newest_mail_of_an_agent_is_read_first(http: TestClient, interlock: Client) -> None:
    interlock.submit({"repo": "/nowhere", "command": "true"}, id="ann/1", machine="loop")
    for text in ("one", "two", "three"):
        headers = {"Idempotency-Key": text, "X-Interlock-Actor": "bob"}
        mail = {"to": "ann", "text": text}
        assert http.post("/v1/messages/send", json=mail, headers=headers).status_code == 200

    read = http.get("/v1/records/ann/1:mail", params={"limit": 2}).json()

    assert [(mail["fields"]["text"], mail["fields"]["sender"]) for mail in read] == [
        ("three", "bob"),
        ("two", "bob"),
    ]
    problem(http.get("/v1/records/bob/1:mail"), 404, "unknown-record")


def test_a_verb_is_applied_to_a_page_of_a_list_with_an_answer_for_each(
    http: TestClient, interlock: Client
) -> None:
    for name in ("a", "b"):
        bring(interlock, name, "awaiting_confirmation")
    interlock.cancel("a", reason="before")
    bulk = {"verb": "cancel", "text": "paper", "dry_run": True}
    problem(http.post("/v1/records:bulk", json={"verb": "cancel"}), 400, "bad-call")
    for wrong in ({"since_from_ms": False}, {"limit": "3"}, {"dry_run": "no"}):
        problem(http.post("/v1/records:bulk", json=bulk | wrong), 422, "invalid-request")

    planned = http.post("/v1/records:bulk", json=bulk).json()
    assert [(item["id"], item["answer"], item["why_not"][-12:]) for item in planned["items"]] == [
        ("a", "dismissed", "it has ended"),
        ("b", "awaiting_confirmation", ""),
    ]
    done = http.post("/v1/records:bulk", json=bulk | {"dry_run": False}).json()["items"]
    assert done[0]["problem"]["type"] == "urn:interlock:illegal-transition"
    assert (done[1]["answer"], interlock.show("b").state) == ("dismissed", "dismissed")


def test_the_records_of_a_verb_are_chosen_by_effect_and_times_too(
    http: TestClient, interlock: Client
) -> None:
    record = bring(interlock, "one", "awaiting_confirmation")
    chosen: dict[str, dict[str, Any]] = {
        "": {"effect": "execution"},
        "0": {"since_to_ms": record.since_ms - 1},
        "1": {"created_from_ms": record.created_ms + 1},
        "one": {"since_to_ms": record.since_ms, "created_from_ms": record.created_ms},
    }
    for name, wanted in chosen.items():
        answer = http.post("/v1/records:bulk", json={"verb": "pause", "dry_run": True, **wanted})
        found = [item["id"] for item in answer.json()["items"]]
        assert found == (["one"] if name == "one" else []), wanted


def test_the_capabilities_are_loaded_once_for_all_requests(
    http: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    interlock.dispatch.__dict__.pop("registry", None)
    opened: list[object] = []

    def counted(given: Settings) -> registry.Registry:
        opened.append(given)
        return open_registry(given)

    monkeypatch.setattr(registry, "open_registry", counted)
    for _ in range(3):
        assert len(http.get("/v1/cards").json()["cards"]) == 1
    assert len(opened) == 1


def test_mail_is_sent_once_as_who_calls(http: TestClient, interlock: Client) -> None:
    interlock.submit({"repo": "/nowhere", "command": "true"}, id="ann/1", machine="loop")

    def send(kind: str = "send", **fields: str) -> Any:
        headers = {"Idempotency-Key": "m1", "X-Interlock-Actor": "bob"}
        return http.post(f"/v1/messages/{kind}", json=fields, headers=headers)

    first, again = send(to="ann", text="hello"), send(to="ann", text="hello")
    assert first.json()["mail"] == again.json()["mail"]
    (mail,) = interlock.dispatch.inboxes.after("ann/1", "0-0", 10)
    assert (mail.fields["sender"], mail.fields["text"]) == ("bob", "hello")
    for wrong in ({"actor": "eve"}, {"id": "x"}, {"colour": "blue"}):
        problem(send(to="ann", text="hello", **wrong), 422, "invalid-payload")
    problem(send("decide"), 400, "bad-call")


def test_machines_and_health_are_shown(http: TestClient) -> None:
    assert "thread" in http.get("/v1/machines").json()
    assert http.get("/v1/machines/thread").json()["initial"] == "proposed"
    problem(http.get("/v1/machines/washing"), 404, "unknown-machine")
    assert http.get("/healthz").json()["store_ms"] > 0
    described = http.get("/openapi.json").json()["paths"]["/v1/records"]["get"]["responses"]
    assert MEDIA_TYPE in described["4XX"]["content"]
    assert http.get("/openapi.json").json()["openapi"].startswith("3.1")


def test_a_record_is_created_once_although_the_store_goes_away_meanwhile(
    server: EmbeddedServer, prefix: str, new_proxy: NewProxy
) -> None:
    proxy = new_proxy(server.port)
    interlock = client_of(proxy.url, prefix, auth="none")
    with TestClient(create_app(interlock), base_url="http://127.0.0.1") as http:
        new_thread(http, "before")
        proxy.refuse()
        away = new_thread(http, "one")
        proxy.heal()
        problem(away, 503, "store-away")
        assert away.headers["Retry-After"] == "5"
        assert [row.id for row in interlock.list()] == ["before"]

        assert new_thread(http, "one").status_code == 201
        # The store creates this one, and its reply does not come.
        proxy.lose_reply(b"two")
        assert new_thread(http, "two").status_code in (200, 201, 503)
        assert (proxy.replies_lost, new_thread(http, "two").json()["replayed"]) == (1, True)
    assert sorted(row.id for row in interlock.list()) == ["before", "one", "two"]
    assert len(interlock.history("two")) == len(interlock.history("one"))


def test_a_fault_of_ours_is_a_problem_without_its_details(api: FastAPI, http: TestClient) -> None:
    def broken() -> int:
        raise RuntimeError("a secret")

    api.state.store_ms = Kept(broken)

    assert "secret" not in problem(http.get("/healthz"), 500, "internal-error")["detail"]


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        (b"{", 422, "invalid-request"),
        (b"[" * 200_000, 400, "unreadable"),
        (b" " * (BODY_BYTES_MAX + 1), 413, "too-large"),
        (b'{"machine": "thread", "payload": {}, "colour": 1}', 422, "invalid-request"),
        (b'{"machine": "thread", "payload": {"x": NaN}}', 422, "invalid-payload"),
        (b'{"machine": "thread", "payload": {"inciting": "\\ud800"}}', 422, "invalid-payload"),
        (b"\xff", 400, "unreadable"),
        (b'{"machine": "\\ud800", "payload": {}}', 422, "invalid-payload"),
        (
            b'{"machine": "thread", "payload": ' + b'{"x":' * 300 + b"1" + b"}" * 301,
            422,
            "invalid-payload",
        ),
    ],
)
def test_a_bad_body_is_refused_and_changes_nothing(
    http: TestClient, interlock: Client, body: bytes, status: int, name: str
) -> None:
    headers = {"Idempotency-Key": "one", "Content-Type": "application/json"}
    problem(http.post("/v1/records", content=body, headers=headers), status, name)

    assert interlock.list() == []


def test_a_page_of_another_site_can_neither_act_nor_read(
    http: TestClient, interlock: Client
) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    problem(http.get("/v1/records/one", headers={"Host": "evil.example"}), 421, "wrong-host")
    problem(http.get("/v1/records/one", headers={"Host": "a b"}), 421, "wrong-host")
    for host in ("localhost:8470", "[::1]:8470"):
        assert http.get("/v1/records/one", headers={"Host": host}).status_code == 200

    # A browser sends text of this type to another site without asking that site before.
    plain = {"Content-Type": "text/plain"}
    answer = http.post("/v1/records/one:cancel", content="{}", headers=plain)
    problem(answer, 422, "invalid-request")
    assert interlock.show("one").state == "awaiting_confirmation"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("records/one:fire", {"trigger": "\ud800"}),
        ("records/one:decide", {"choice": "\ud800", "proposal": "\ud800"}),
        ("messages/send", {"to": "ann", "text": "x", "reply_to": {"\ud800": 1}}),
    ],
)
def test_no_text_that_cannot_be_stored_comes_further(
    http: TestClient, interlock: Client, path: str, body: dict[str, Any]
) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    headers = {"If-Match": "*", "Idempotency-Key": "k", "Content-Type": "application/json"}
    answer = http.post(f"/v1/{path}", content=json.dumps(body), headers=headers)
    problem(answer, 422, "invalid-payload")


@pytest.mark.parametrize("after", ["soon", "1", "1-0 ", "\u0663-\u0663"])
def test_what_is_no_position_in_a_log_is_refused(http: TestClient, after: str) -> None:
    new_thread(http, "one")

    refused = http.get("/v1/records/one:history", params={"after": after})

    problem(refused, 422, "invalid-request")


def test_a_bad_record_of_several_stores_none_of_them(http: TestClient, interlock: Client) -> None:
    good = {"machine": "thread", "payload": thread_payload(), "id": "good"}
    content = json.dumps({"records": [good, good | {"id": "\ud800"}]})
    headers = {"Content-Type": "application/json"}
    answer = http.post("/v1/records:batch", content=content, headers=headers)

    problem(answer, 422, "invalid-payload")
    assert interlock.list() == []


def test_a_wrong_method_or_address_is_a_problem(http: TestClient) -> None:
    wrong = http.delete("/v1/records")
    problem(wrong, 405, "wrong-method")
    assert "GET" in wrong.headers["Allow"] or "POST" in wrong.headers["Allow"]
    problem(http.get("/v2"), 404, "unknown-address")


def test_a_wrong_method_is_answered_with_all_methods_of_the_address(http: TestClient) -> None:
    allowed = {"/v1/records": "GET, POST", "/v1/tokens": "GET, POST", "/v1/records:batch": "POST"}
    assert {path: http.put(path).headers["Allow"] for path in allowed} == allowed


def test_every_error_of_the_kernel_is_a_kind_of_problem() -> None:
    raised = {each for each in vars(errors).values() if isinstance(each, type)}
    of_calls = {each for each in raised if issubclass(each, KernelError)}

    assert set(KINDS) <= of_calls
    assert kind_of(StoreDownError("x")).status == 503
    names = [kind.name for kind in KINDS.values()]
    assert len(names) == len(set(names))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text(max_size=10), inner),
    max_leaves=10,
)
PATHS = ("records", "records:batch", "records:bulk", "records/one:fire", "records/one:decide")


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), body=JSON, machine=st.sampled_from(["thread", "task", "x"]))
def test_no_body_is_a_fault_of_the_server(
    http: TestClient, path: str, body: Any, machine: str
) -> None:
    bodies = [body, {"machine": machine, "payload": body}, {"trigger": "execute", "payload": body}]
    for each in bodies:
        content = json.dumps(each).encode()
        headers = {"Idempotency-Key": "one", "If-Match": '"1"', "Content-Type": "application/json"}
        answer = http.post(f"/v1/{path}", content=content, headers=headers)
        assert answer.status_code < 500, answer.text


RIGHT: Mapping[str, Any] = {
    "records": {"machine": "thread", "payload": thread_payload(), "priority": 3},
    "records:batch": {"records": [{"machine": "task", "payload": {"title": "x"}, "id": "b/one"}]},
    "records:bulk": {"verb": "pause", "machine": "thread", "text": "paper", "limit": 2},
    "records/one:fire": {"trigger": "dismissed_by_user", "payload": {"reason": "x"}, "entered": 1},
    "records/one:decide": {"choice": "reject", "answer": {"reason": "x"}, "proposal": "one:8"},
    "records/one:explain": {"trigger": "reject", "payload": {"reason": "x"}},
    "records/one:cancel": {"reason": "x"},
    "messages/send": {"to": "ann", "text": "x", "kind": "note", "thread": "t", "urgent": True},
}


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(list(RIGHT)), chance=chances)
def test_no_body_that_is_nearly_right_is_a_fault_of_the_server(
    http: TestClient, interlock: Client, path: str, chance: Random
) -> None:
    if not interlock.list():
        bring(interlock, "one", "awaiting_confirmation")
    body = damaged(RIGHT[path], chance)
    headers = {"Idempotency-Key": "one", "If-Match": "*", "Content-Type": "application/json"}
    answer = http.post(f"/v1/{path}", content=json.dumps(body), headers=headers)
    assert answer.status_code < 500, answer.text


TEXTS = st.sampled_from(["1-0", "*", '"1"', "0", "[]", "thread", "executing"])
# Other characters are in no header.
HEADERS = TEXTS | st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20)
QUERIES = ("cursor", "text", "id", "parent", "state", "limit", "order", "created_to_ms", "after")
NAMES = ("If-Match", "Idempotency-Key", "Last-Event-ID", "X-Interlock-Actor", "traceparent")
READ = ("records", "cards", "counts", "records/one", "records/one:history", "records/one:events")
DONE = ("records/one:cancel", "records/one:pause", "records/one:decide")


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(READ + DONE)
    | any_text(max_size=20).map(lambda id_: f"records/{quote(id_)}"),
    query=st.dictionaries(st.sampled_from(QUERIES), TEXTS | any_text(max_size=20), max_size=3),
    headers=st.dictionaries(st.sampled_from(NAMES), HEADERS, max_size=3),
)
def test_no_query_id_or_header_is_a_fault_of_the_server(
    http: TestClient, path: str, query: dict[str, str], headers: dict[str, str]
) -> None:
    sent = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    body = {"choice": "x", "proposal": "x"} if path.endswith("decide") else {}
    method, content = ("POST", json.dumps(body)) if path in DONE else ("GET", None)
    answer = http.request(method, f"/v1/{path}", params=query, headers=sent, content=content)
    assert answer.status_code < 500, answer.text


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "example.org", "::"])  # noqa: S104
def test_an_address_that_others_can_reach_is_refused(host: str) -> None:
    with pytest.raises(SettingsError, match="only an address of this computer can be served"):
        check_loopback(host)


def test_an_installation_without_the_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("interlock.workers.api.app", "interlock.workers.console.app"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "fastapi", None)

    answered = CliRunner().invoke(app, ["serve"])

    assert answered.exit_code == 1
    assert "the console and the API need fastapi: pip install 'interlock[web]'" in answered.output


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.9.9.9"])
def test_an_address_of_this_computer_is_served(host: str) -> None:
    check_loopback(host)
