"""The sessions of browsers: no token, ended with the token that began them, and links to one."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from interlock.kernel.errors import TokenRefusedError
from interlock.workers.access.keyring import OWNER_CALLER
from interlock.workers.access.known_sessions import KnownSessions
from interlock.workers.access.roles import Caller, Role
from interlock.workers.client import Client
from interlock.workers.engine.sessions import OWNER, new_link, sessions_of
from interlock.workers.gateways.server import EmbeddedServer
from tests.round_trips import round_trips
from tests.systems.threads.threads import client_of
from tests.workers.access.tokens import keyring_of, new_session, new_token

UP = "the-token-of-this-up"


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


def code_of(link: str) -> str:
    """Return the code of a link."""
    return parse_qs(urlsplit(link).query)["code"][0]


def test_a_session_has_the_rights_of_its_token_is_none_itself_and_ends_with_it(
    interlock: Client,
) -> None:
    ring, text = keyring_of(interlock), new_token(interlock, Role.VIEWER, machines=("thread",))
    session = ring.sign_in(text)

    wanted = Caller("ann", (Role.VIEWER,), ("thread",), token_id=text.split("_")[1])
    assert ring.by_session(session) == wanted
    for other in (text, session[:-1], ""):
        with pytest.raises(TokenRefusedError):
            ring.by_session(other)
    with pytest.raises(TokenRefusedError):
        ring.by_token(session)
    interlock.dispatch.access_tokens.revoke(wanted.token_id, "root")
    with pytest.raises(TokenRefusedError, match="revoked"):
        ring.by_session(session)


def test_who_runs_up_may_do_all_under_any_name_as_long_as_this_up_runs(interlock: Client) -> None:
    ring = keyring_of(interlock, UP)
    session = ring.sign_in(UP)

    assert ring.by_token(UP) is ring.by_session(session) is OWNER_CALLER
    assert (OWNER_CALLER.roles, OWNER_CALLER.proved) == ((Role.ADMIN,), False)
    assert ring.by_token(new_token(interlock, Role.VIEWER)).name == "ann"
    for wrong in ("", OWNER, UP[:-1], f"{UP}\ud800"):
        with pytest.raises(TokenRefusedError):
            ring.by_token(wrong)
    # The next `up`, and one that asks for access tokens only.
    for later in (keyring_of(interlock, "another"), keyring_of(interlock)):
        with pytest.raises(TokenRefusedError):
            later.by_token(UP)
        with pytest.raises(TokenRefusedError, match="of another run of `interlock up`"):
            later.by_session(session)


def test_a_link_signs_in_once_and_no_secret_is_good_for_the_other_purpose(
    interlock: Client,
) -> None:
    ring, sessions = keyring_of(interlock, UP), sessions_of(interlock.dispatch)
    code = code_of(new_link(sessions, "http://127.0.0.1:1", UP))

    with pytest.raises(TokenRefusedError):
        ring.by_session(code)
    assert ring.by_session(ring.sign_in_by_link(code)) is OWNER_CALLER
    for used in (code, ring.sign_in(UP), UP):
        with pytest.raises(TokenRefusedError):
            ring.sign_in_by_link(used)
    foreign = code_of(new_link(sessions, "http://127.0.0.1:1", "another"))
    with pytest.raises(TokenRefusedError, match="another run"):
        ring.sign_in_by_link(foreign)


def test_a_known_session_is_found_without_the_store_until_any_has_ended_or_its_token_expires(
    interlock: Client,
) -> None:
    ring, session = keyring_of(interlock), new_session(interlock, Role.VIEWER)
    expires_ms = interlock.dispatch.access_tokens.all()[0].expires_ms
    other, times = new_session(interlock, Role.VIEWER), iter((0, 0, expires_ms))
    known = KnownSessions(ring, lambda: next(times), kept_s=0)
    assert known.caller(session) == ring.by_session(session)

    with round_trips() as sent:
        known.caller(session)
        looked = sent()  # whether any session was ended or any token revoked
        known.caller(session)
        assert sent() == 2 * looked + 2  # and whether this one is valid still

    known = KnownSessions(ring, interlock.now_ms, kept_s=0)
    assert {known.caller(one).name for one in (session, other)} == {"ann"}
    ring.sign_out(session)
    with pytest.raises(TokenRefusedError, match="has ended"):
        known.caller(session)
    assert known.caller(other).name == "ann"
    interlock.dispatch.access_tokens.revoke(known.caller(other).token_id, "root")
    with pytest.raises(TokenRefusedError, match="revoked"):
        known.caller(other)
