"""The commands of access tokens, and what roles allow."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from typer.testing import CliRunner

from interlock.kernel.errors import CallError, ForbiddenError, TokenRefusedError
from interlock.workers.access.roles import ALLOWED, Act, Caller, Role, roles_named
from interlock.workers.access.tokens import make_token
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from tests.any_text import any_text
from tests.damage import chances, torn
from tests.systems.threads.threads import client_of, thread_payload
from tests.workers.access.tokens import keyring_of, new_token


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setenv("INTERLOCK_STORE_URL", server.url)
    monkeypatch.setenv("INTERLOCK_PREFIX", prefix)
    return client_of(server.url, prefix)


def run(*words: str) -> str:
    answered = CliRunner().invoke(app, ["token", *words])
    assert answered.exit_code == 0, answered.output
    return answered.stdout


def test_a_token_is_made_listed_and_revoked(interlock: Client) -> None:
    words = ("--role", "producer", "--role", "approver", "--machine", "thread")
    made = json.loads(run("create", "shop", *words, "--as", "ann", "--json"))
    caller = keyring_of(interlock).by_token(made["token"])

    assert caller == Caller(
        "shop", (Role.PRODUCER, Role.APPROVER), ("thread",), token_id=made["id"]
    )
    (listed,) = json.loads(run("list", "--json"))
    assert (listed["id"], listed["made_by"], listed["revoked"]) == (made["id"], "ann", "")
    assert listed["used"][:2] == "20"
    run("revoke", made["id"], "--as", "bob")
    (listed,) = json.loads(run("list", "--json"))
    assert (listed["revoked"][:2], listed["revoked_by"]) == ("20", "bob")
    table = run("list")
    assert "shop" in table
    assert "producer, approver" in table


@pytest.mark.usefixtures("interlock")
def test_an_empty_list_says_what_to_do() -> None:
    assert "interlock token create" in run("list")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"holder": "a b"}, "the holder"),
        ({"holder": ""}, "the holder"),
        ({"holder": "orphans"}, "'orphans' is what the log calls a part of Interlock; use another"),
        ({"roles": ["king"]}, "there is no role 'king'; the roles: viewer, producer"),
        ({"roles": []}, "name at least one role"),
        ({"machines": ["washing"]}, "there is no machine 'washing'"),
        ({"days": -1}, "1 to 3650 days"),
        ({"days": 3_651}, "1 to 3650 days"),
    ],
)
def test_a_token_that_makes_no_sense_is_refused(
    interlock: Client, wrong: dict[str, Any], said: str
) -> None:
    fields: dict[str, Any] = {"holder": "ann", "roles": ["viewer"], "machines": [], "days": 1}
    chosen = fields | wrong
    holder = str(chosen.pop("holder"))
    with pytest.raises(CallError, match=said):
        make_token(
            interlock.dispatch.access_tokens,
            holder,
            known_machines=interlock.machines,
            made_by="root",
            **chosen,
        )
    assert interlock.dispatch.access_tokens.all() == []


def test_who_may_not_is_told_which_roles_may() -> None:
    said = "ann has the role viewer and may not answer cards; these may: approver, operator, admin"
    with pytest.raises(ForbiddenError, match=said):
        Caller("ann", (Role.VIEWER,)).check(Act.DECIDE)
    assert all(Act.READ in acts for acts in ALLOWED.values())
    assert roles_named(["admin", "viewer", "admin"]) == (Role.VIEWER, Role.ADMIN)


def test_no_two_tokens_have_one_id(interlock: Client) -> None:
    tokens = interlock.dispatch.access_tokens
    options: dict[str, Any] = {"holder": "a", "roles": ["viewer"], "machines": [], "made_by": "b"}
    tokens.keep("one", "aa", **options, lifetime_ms=0)
    with pytest.raises(CallError, match="already"):
        tokens.keep("one", "bb", **options, lifetime_ms=0)


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances)
@example(chance=b"1 0 DIGEST [1]")
@example(chance=b"x 0 DIGEST []")
@example(chance=b"")
def test_a_damaged_token_is_refused_and_hides_no_other(
    interlock: Client, chance: Random | bytes
) -> None:
    tokens, ring = interlock.dispatch.access_tokens, keyring_of(interlock)
    store, keys = cast("Any", interlock.dispatch.client), interlock.dispatch.keys
    bad, good = (new_token(interlock, Role.VIEWER, holder=name) for name in ("bob", "ann"))
    one, key = bad.split("_")[1], keys.access_tokens()
    whole = store.hget(key, one)
    if isinstance(chance, bytes):
        store.hset(key, one, chance.replace(b"DIGEST", whole.split(b" ")[2]))
    else:
        store.hset(key, one, torn(whole, chance))
        for other in (keys.access_tokens_used(), keys.access_tokens_revoked()):
            if chance.random() < 0.3:
                store.hset(other, one, torn(b"1764115200000 root", chance))

    assert good.split("_")[1] in {token.id for token in tokens.all()}
    with suppress(TokenRefusedError):
        assert ring.by_token(bad).acts <= {Act.READ}
    store.hset(keys.access_tokens_used(), good.split("_")[1], "x")
    assert ring.by_token(good).name == "ann", "when it was used last is noted anew"
    store.delete(key, keys.access_tokens_used(), keys.access_tokens_revoked())


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances, text=any_text(max_size=40))
def test_no_other_text_is_a_token(interlock: Client, chance: Random, text: str) -> None:
    ring = keyring_of(interlock)
    whole = f"il_000000000000_{'A' * 43}"
    for wrong in (text, f"il_{text}_{'A' * 43}", torn(whole.encode(), chance).decode("latin-1")):
        with pytest.raises(TokenRefusedError):
            ring.by_token(wrong)


def test_two_teams_on_one_server_share_neither_tokens_nor_records(
    interlock: Client, server: EmbeddedServer, prefix: str
) -> None:
    other = client_of(server.url, f"{prefix}-b")
    text = new_token(interlock, Role.ADMIN)
    interlock.submit(thread_payload(), machine="thread", id="one")

    with pytest.raises(TokenRefusedError):
        keyring_of(other).by_token(text)
    assert (other.list(), other.cards(), other.dispatch.access_tokens.all()) == ([], [], [])
    assert not other.submit(thread_payload(), machine="thread", id="one").replayed
    assert len(interlock.list()) == 1
