"""Every address asks who calls; roles and machines bound what the holder of a token may do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx2 import Response

from interlock.kernel.errors import CallError
from interlock.kernel.event import Event, Note
from interlock.kernel.record import partition_of
from interlock.kernel.store.scripts import read
from interlock.workers.access.roles import ALLOWED, Act, Role
from interlock.workers.access.tokens import make_token
from interlock.workers.api.app import create_app
from interlock.workers.api.events import EXPORTS_MAX, EXPORTS_OF_ONE_MAX
from interlock.workers.api.problems import RefusedRequestError
from interlock.workers.api.rates import BURST_S, Rates
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import bring, client_of, thread_payload

OPEN = {"/healthz"}
# What an address of the API does; a new one has to be added here.
ACTS = {
    "GET /v1/me": None,
    "GET /v1/tokens": Act.ADMINISTER,
    "POST /v1/tokens": Act.ADMINISTER,
    "POST /v1/tokens/{token_id}:revoke": Act.ADMINISTER,
    "POST /v1/records": Act.SUBMIT,
    "POST /v1/records:batch": Act.SUBMIT,
    "POST /v1/records/{record_id}:cancel": Act.SUBMIT,
    "POST /v1/messages/{kind}": Act.SUBMIT,
    "POST /v1/records/{record_id}:decide": Act.DECIDE,
    "POST /v1/records/{record_id}:claim-card": Act.DECIDE,
    "POST /v1/records/{record_id}:release-card": Act.DECIDE,
    "POST /v1/records/{record_id}:fire": Act.OPERATE,
    "POST /v1/records/{record_id}:{verb}": Act.OPERATE,
    "POST /v1/records:bulk": Act.OPERATE,
    "POST /v1/records/{record_id}:explain": Act.READ,
    "GET /v1/rejected": Act.OPERATE,
    "GET /v1/rejected/{message_id}": Act.OPERATE,
    "POST /v1/rejected/{message_id}:replay": Act.OPERATE,
    "POST /v1/rejected/{message_id}:drop": Act.OPERATE,
}
# Those are about all machines, and closed to tokens that are limited to some.
OF_ALL_MACHINES = ("/v1/rejected", "/v1/top")


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def api(interlock: Client) -> FastAPI:
    return create_app(interlock)


@pytest.fixture
def http(api: FastAPI) -> Iterator[TestClient]:
    with TestClient(api, base_url="http://interlock.example") as opened:
        yield opened


def bearer(interlock: Client, *roles: str, holder: str = "ann", **scope: Any) -> dict[str, str]:
    """Return the header of a new token."""
    options: dict[str, Any] = {"machines": (), "days": 1, "made_by": "root"} | scope
    text, _ = make_token(
        interlock.dispatch.access_tokens,
        holder,
        roles=roles,
        known_machines=interlock.machines,
        **options,
    )
    return {"Authorization": f"Bearer {text}"}


def routes(api: FastAPI) -> Iterator[tuple[str, str, str]]:
    for path, methods in api.openapi()["paths"].items():
        for method in methods:
            yield f"{method.upper()} {path}", method.upper(), path


def kind(answer: Response) -> str:
    return str(answer.json()["type"]).removeprefix("urn:interlock:")


def test_every_address_asks_who_calls_and_what_the_caller_may(
    api: FastAPI, http: TestClient, interlock: Client
) -> None:
    # The machine's scope is one that no record has, so that no call does anything.
    headers = {
        role: bearer(interlock, role, holder=role, machines=[] if role is Role.ADMIN else ["task"])
        for role in Role
    }
    unlimited = {role: bearer(interlock, role, holder=role) for role in Role}
    served = list(routes(api))
    assert set(ACTS) < {name for name, _, _ in served}
    for name, method, path in served:
        if path in OPEN:
            continue
        act = ACTS[name] if method == "POST" or name in ACTS else Act.READ
        address = path.replace("{record_id}", "nobody").replace("{verb}", "pause")
        if path == "/v1/events":
            address += "?after=nowhere"  # else it answers for minutes
        elif path == "/v1/events:export":
            address += "?scope=nobody"  # else it reads the whole store
        refused = http.request(method, address)
        assert (refused.status_code, kind(refused)) == (401, "no-token"), name
        assert refused.headers["WWW-Authenticate"] == "Bearer"
        of_all = path.startswith(OF_ALL_MACHINES)
        for role, header in (unlimited if of_all else headers).items():
            answer = http.request(method, address, headers=header)
            allowed = act is None or act in ALLOWED[role]
            assert (answer.status_code == 403) is not allowed, (name, role, answer.text)


def test_the_log_has_the_proved_name_and_its_roles(http: TestClient, interlock: Client) -> None:
    ann = bearer(interlock, "producer", "operator")
    body = {"machine": "thread", "payload": thread_payload()}
    http.post("/v1/records", json=body, headers=ann | {"Idempotency-Key": "one"})
    http.post("/v1/records/one:pause", json={"reason": "wait"}, headers=ann)

    lines = interlock.history("one")
    created = lines[0]
    assert isinstance(created, Event)
    assert (created.cause.actor, created.cause.codes) == ("ann", ("as:producer", "as:operator"))
    paused = [line for line in lines if isinstance(line, Note) and line.kind == "pause"]
    assert paused[0].detail["codes"] == ["as:producer", "as:operator"]

    other = http.get("/v1/me", headers=ann | {"X-Interlock-Actor": "bob"})
    assert kind(other) == "forbidden", "nobody acts under another name than that of the token"
    assert http.get("/v1/me", headers=ann | {"X-Interlock-Actor": "ann"}).json()["proved"]


def test_a_claimed_name_is_said_to_be_claimed(server: EmbeddedServer, prefix: str) -> None:
    interlock = client_of(server.url, prefix, auth="none")
    with TestClient(create_app(interlock), base_url="http://127.0.0.1") as http:
        me = http.get("/v1/me", headers={"X-Interlock-Actor": "ann"}).json()
        assert (me["name"], me["proved"], me["roles"]) == ("ann", False, ["operator"])
        ours = http.get("/v1/counts", headers={"X-Interlock-Actor": "orphans"})
        assert kind(ours) == "invalid-payload"
        assert kind(http.get("/v1/tokens")) == "forbidden", "who is not asked makes no tokens"
        http.post(
            "/v1/records",
            json={"machine": "thread", "payload": thread_payload()},
            headers={"Idempotency-Key": "one"},
        )
    created = interlock.history("one")[0]
    assert isinstance(created, Event)
    assert created.cause.codes == ()


def test_a_token_of_some_machines_sees_and_changes_no_other_record(
    http: TestClient, interlock: Client
) -> None:
    bring(interlock, "thread-1", "awaiting_confirmation")
    interlock.submit({"title": "x"}, id="b/one", machine="task")
    of_tasks = bearer(interlock, "operator", machines=["task"])

    def got(path: str) -> Any:
        return http.get(path, headers=of_tasks).json()

    assert [row["id"] for row in got("/v1/records")["records"]] == ["b/one"]
    assert [row["id"] for row in got("/v1/records?text=paper")["records"]] == []
    assert list(got("/v1/counts")["machines"]) == got("/v1/machines") == ["task"]
    assert got("/v1/cards")["cards"] == []
    for path in ("/v1/machines/thread", "/v1/counts?machine=thread"):
        assert kind(http.get(path, headers=of_tasks)) == "unknown-machine"
    for name in ("", ":history", ":events", ":output", ":diff", ":cards"):
        refused = http.get(f"/v1/records/thread-1{name}", headers=of_tasks)
        assert kind(refused) == "unknown-record", name
    for verb in ("cancel", "pause", "retry"):
        refused = http.post(f"/v1/records/thread-1:{verb}", json={}, headers=of_tasks)
        assert kind(refused) == "unknown-record"
    body = {"machine": "thread", "payload": thread_payload()}
    refused = http.post("/v1/records", json=body, headers=of_tasks | {"Idempotency-Key": "two"})
    assert kind(refused) == "unknown-machine"
    bulk = {"verb": "cancel", "text": "paper"}
    assert http.post("/v1/records:bulk", json=bulk, headers=of_tasks).json()["items"] == []
    for path in OF_ALL_MACHINES:
        assert kind(http.get(path, headers=of_tasks)) == "forbidden"
    exported = http.get("/v1/events:export", headers=of_tasks).text.splitlines()
    assert {json.loads(line)["entity_id"] for line in exported} == {"b/one"}
    assert http.post("/v1/records/b/one:pause", json={}, headers=of_tasks).status_code == 200
    assert interlock.show("thread-1").state == "awaiting_confirmation"


def test_few_exports_of_events_run_at_once(
    http: TestClient, api: FastAPI, interlock: Client
) -> None:
    ann, running = bearer(interlock, "viewer"), api.state.exports.callers
    for others in (["ann"] * EXPORTS_OF_ONE_MAX, ["bob"] * EXPORTS_MAX):
        running[:] = others
        refused = http.get("/v1/events:export", headers=ann)
        assert (refused.status_code, kind(refused)) == (503, "too-many-listeners")
        assert refused.headers["Retry-After"] == "5"
    running.clear()
    assert http.get("/v1/events:export?scope=nobody", headers=ann).status_code == 200
    assert running == [], "its place is free again"


def test_cards_of_other_machines_hide_none_of_mine(interlock: Client) -> None:
    for n in range(3):
        bring(interlock, f"t{n}", "awaiting_confirmation")
    waits = bring(interlock, "mine", "awaiting_confirmation")
    interlock.machines = {"task": interlock.machines["task"]}
    assert interlock.cards(limit=1) == []
    interlock.machines = {waits.machine: interlock.dispatch.machines[waits.machine]}
    assert len(interlock.cards(limit=4)) == 4


@pytest.mark.parametrize("at_once", [False, True], ids=["one after the other", "at once"])
def test_open_cards_come_page_by_page_each_once(interlock: Client, *, at_once: bool) -> None:
    made = [bring(interlock, f"t{n}", "awaiting_confirmation") for n in range(5)]
    if at_once:
        views = interlock.dispatch.views
        for one in made:
            read(views.client, "ZADD", views.keys.waits(partition_of(one.id)), 5, one.id)
    pages: list[list[str]] = []
    cursor = ""
    while cursor or not pages:
        page = interlock.cards_page(limit=2, cursor=cursor)
        pages.append([card.record_id for card in page.cards])
        cursor = page.cursor

    assert pages == [["t0", "t1"], ["t2", "t3"], ["t4"]]
    with pytest.raises(CallError, match="'x' is no cursor of this list"):
        interlock.cards_page(cursor="x")


def test_a_revoked_token_an_expired_one_and_a_wrong_one_are_refused(
    http: TestClient, interlock: Client
) -> None:
    admin = bearer(interlock, "admin")
    made = http.post("/v1/tokens", json={"holder": "bob", "roles": ["viewer"]}, headers=admin)
    text, token_id = made.json()["token"], made.json()["about"]["id"]
    bob = {"Authorization": f"Bearer {text}"}
    assert http.get("/v1/me", headers=bob).json()["name"] == "bob"

    revoked = http.post(f"/v1/tokens/{token_id}:revoke", headers=admin)
    assert revoked.json()["answer"] == "revoked"
    assert "revoked" in http.get("/v1/me", headers=bob).json()["detail"]
    # A second revocation does not change what is kept of the first.
    http.post(f"/v1/tokens/{token_id}:revoke", headers=bearer(interlock, "admin", holder="eve"))
    listed = {one["id"]: one for one in http.get("/v1/tokens", headers=admin).json()}
    assert listed[token_id]["revoked_by"] == "ann"
    assert listed[token_id]["used_ms"] > 0
    assert "secret" not in str(listed)
    assert text.split("_", 2)[2] not in str(listed)
    nobody = http.post("/v1/tokens/000000000000:revoke", headers=admin)
    assert kind(nobody) == "bad-call"

    for wrong in (f"{text}x", text[:-1] + "?", "il_x_y", f"il_{token_id}_{'A' * 43}", "\x00"):
        refused = http.get("/v1/me", headers={"Authorization": f"Bearer {wrong}"})
        assert refused.status_code == 401


def test_an_expired_token_is_refused(http: TestClient, interlock: Client) -> None:
    ann = bearer(interlock, "viewer")
    tokens = interlock.dispatch.access_tokens
    (kept,) = tokens.all()
    name = interlock.dispatch.keys.access_tokens()
    store: Any = interlock.dispatch.client
    _, _, digest, fields = store.hget(name, kept.id).split(b" ", 3)
    store.hset(name, kept.id, b" ".join([b"1", b"2", digest, fields]))

    assert "expired" in http.get("/v1/me", headers=ann).json()["detail"]
    tokens.revoke(kept.id, "root")
    assert "revoked" in http.get("/v1/me", headers=ann).json()["detail"]


def test_no_secret_is_in_the_store(interlock: Client) -> None:
    secret = bearer(interlock, "viewer")["Authorization"].split("_", 2)[2].encode()
    store: Any = interlock.dispatch.client

    names = store.keys(f"{interlock.dispatch.keys.prefix}:*")
    assert names
    assert not any(secret in (store.dump(name) or b"") for name in names)


def test_a_caller_who_calls_too_often_is_told_when_to_come_back(
    interlock: Client, api: FastAPI, http: TestClient
) -> None:
    now = 0.0
    api.state.rates = Rates(2, clock=lambda: now)
    ann, bob = bearer(interlock, "viewer"), bearer(interlock, "viewer", holder="bob")

    answers = [http.get("/v1/me", headers=ann) for _ in range(2 * BURST_S + 1)]
    assert [one.status_code for one in answers] == [200] * 2 * BURST_S + [429]
    assert answers[-1].headers["Retry-After"] == "1"
    assert http.get("/v1/me", headers=bob).status_code == 200, "others call on"
    now = 0.5
    assert http.get("/v1/me", headers=ann).status_code == 200
    assert http.get("/v1/me", headers=ann).status_code == 429


def test_who_tries_tokens_is_stopped_by_address(
    interlock: Client, api: FastAPI, http: TestClient
) -> None:
    api.state.rates = Rates(1, clock=lambda: 0.0)
    guess = {"Authorization": f"Bearer il_000000000000_{'A' * 43}"}

    answers = [http.get("/v1/me", headers=guess).status_code for _ in range(BURST_S + 1)]
    assert answers == [401] * BURST_S + [429]
    valid = bearer(interlock, "viewer")
    assert http.get("/v1/me", headers=valid).status_code == 200, "behind a proxy all share one"


def test_no_more_callers_are_remembered_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.workers.api.rates.CALLERS_MAX", 2)
    rates = Rates(1, clock=lambda: 0.0)
    for _ in range(BURST_S):
        rates.count("ann")
    with pytest.raises(RefusedRequestError):
        rates.count("ann")
    for other in ("bob", "eve"):
        rates.count(other)
    rates.count("ann")


def test_an_admin_of_some_machines_makes_and_revokes_no_tokens(
    http: TestClient, interlock: Client
) -> None:
    with pytest.raises(CallError, match="name none for this role"):
        bearer(interlock, "admin", machines=["task"])
    whole = bearer(interlock, "admin")
    token_id = interlock.dispatch.access_tokens.all()[0].id
    # Such a token could have been made by another version.
    store: Any = interlock.dispatch.client
    name = interlock.dispatch.keys.access_tokens()
    limited = store.hget(name, token_id).replace(b'["admin"], []', b'["admin"], ["task"]')
    store.hset(name, token_id, limited)

    new = {"holder": "eve", "roles": ["admin"]}
    assert kind(http.post("/v1/tokens", json=new, headers=whole)) == "forbidden"
    assert kind(http.post(f"/v1/tokens/{token_id}:revoke", headers=whole)) == "forbidden"


def test_a_role_that_is_not_known_here_allows_nothing(http: TestClient, interlock: Client) -> None:
    ann = bearer(interlock, "viewer")
    store: Any = interlock.dispatch.client
    name = interlock.dispatch.keys.access_tokens()
    (token_id,) = store.hkeys(name)
    store.hset(name, token_id, store.hget(name, token_id).replace(b"viewer", b"auditor"))

    assert kind(http.get("/v1/records", headers=ann)) == "forbidden"


def test_no_caller_uses_up_the_op_id_of_a_timer(http: TestClient, interlock: Client) -> None:
    ann = bearer(interlock, "operator")
    record = bring(interlock, "one", "awaiting_inference")
    timer = record.timers[0]
    own = f"due:{timer.name}:{timer.set_at_version}:{timer.due_at}"
    body = {"trigger": "dismissed_by_user", "payload": {"reason": "x"}}
    done = http.post("/v1/records/one:fire", json=body, headers=ann | {"Idempotency-Key": own})

    assert done.status_code == 200
    assert interlock.dispatch.lifecycle.op_outcome("one", own) == ""
    assert interlock.was_made("one", own)


def test_several_records_count_as_so_many_calls(
    http: TestClient, api: FastAPI, interlock: Client
) -> None:
    api.state.rates = Rates(1, clock=lambda: 0.0)
    ann = bearer(interlock, "producer")
    each = {"machine": "thread", "payload": thread_payload(), "id": "one"}
    more = http.post("/v1/records:batch", json={"records": [each] * (BURST_S + 1)}, headers=ann)

    assert kind(more) == "too-large", "it could never be made"
    assert interlock.list() == []
    api.state.rates = Rates(1, clock=lambda: 0.0)
    whole = http.post("/v1/records:batch", json={"records": [each] * BURST_S}, headers=ann)
    assert whole.status_code == 200, "as many as can be saved up"

    interlock.submit(thread_payload(), machine="thread", id="two")
    api.state.rates = Rates(1, clock=lambda: 0.0)
    bob = bearer(interlock, "operator", holder="bob")
    pause = {"verb": "pause", "machine": "thread"}
    paused = [http.post("/v1/records:bulk", json=pause, headers=bob) for _ in range(3)]
    assert [one.status_code for one in paused] == [200, 200, 429], "of two records each"
    assert paused[-1].headers["Retry-After"] == "2", "the next try is a call as well"


def test_a_wrong_name_counts_as_a_call(http: TestClient, api: FastAPI, interlock: Client) -> None:
    api.state.rates = Rates(1, clock=lambda: 0.0)
    ann = bearer(interlock, "viewer") | {"X-Interlock-Actor": "bob"}

    answers = [http.get("/v1/me", headers=ann).status_code for _ in range(BURST_S + 1)]
    assert answers == [403] * BURST_S + [429]
