"""People sign in by an OpenID Connect provider; one that lies signs nobody in."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient
from httpx2 import Client as Http
from httpx2 import Response
from hypothesis import HealthCheck, given, settings

from interlock.kernel.errors import InvalidPayloadError
from interlock.workers.client import Client
from interlock.workers.console import oidc
from interlock.workers.console.app import create_console
from interlock.workers.console.oidc import Attempt, NotSignedInError, Provider
from interlock.workers.gateways.server import EmbeddedServer
from tests.damage import chances, damaged, torn
from tests.fakes.oidc_provider import OidcProvider, oidc_provider
from tests.systems.threads.threads import client_of

OFTEN = 0.4
SITE = "http://interlock.example"
ANN = {
    "sub": "1",
    "email": "ann@example.org",
    "email_verified": True,
    "preferred_username": "ann",
    "groups": ["reviewers", "others"],
}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[OidcProvider]:
    monkeypatch.setattr(oidc, "WITHIN_S", 60.0)
    with oidc_provider("console") as running:
        running.person = dict(ANN)
        yield running


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, provider: OidcProvider) -> Client:
    return client_of(
        server.url,
        prefix,
        oidc_issuer=provider.issuer,
        oidc_client_id="console",
        oidc_client_secret="secret",
        oidc_roles={"reviewers": "approver", "admins": "admin"},
    )


@pytest.fixture
def browser(interlock: Client) -> Iterator[TestClient]:
    with TestClient(create_console(interlock), base_url=SITE, follow_redirects=False) as opened:
        yield opened


def at_provider(browser: TestClient, then: str = "/fleet") -> str:
    """Begin to sign in, let the provider do its part, and return where it sends the browser."""
    begun = browser.get("/login/provider", params={"then": then})
    assert begun.status_code == 303, begun.text
    with Http() as http:
        sent = http.get(begun.headers["Location"])
    back = sent.headers["Location"]
    assert back.startswith(f"{SITE}/login/provider/back?")
    return str(back)


def signed_in(browser: TestClient) -> Response:
    return browser.get(at_provider(browser))


def test_a_person_signs_in_with_the_roles_of_their_groups_and_out_again(
    browser: TestClient, interlock: Client
) -> None:
    assert "Sign in with your organisation" in browser.get("/login").text

    there = signed_in(browser)
    (kept,) = interlock.dispatch.access_tokens.all()

    assert there.headers["Location"] == "/fleet"
    assert (kept.holder, kept.roles, kept.made_by) == ("ann@example.org", ("approver",), "sign-in")
    assert kept.expires_ms - kept.created_ms == 86_400_000
    assert "ann@example.org" in browser.get("/inbox").text
    stolen = dict(browser.cookies)
    browser.post("/logout", headers={"Origin": SITE})
    browser.cookies.update(stolen)
    assert browser.get("/inbox").headers["Location"].startswith("/login")


@pytest.mark.parametrize(
    ("lies", "forged"),
    [
        ({"nonce": "another"}, False),
        ({"aud": "another"}, False),
        ({"iss": "http://x"}, False),
        ({"exp": 1}, False),
        ({}, True),
    ],
)
def test_a_token_that_is_not_for_this_attempt_signs_nobody_in(
    browser: TestClient,
    interlock: Client,
    provider: OidcProvider,
    lies: dict[str, Any],
    forged: bool,  # noqa: FBT001
) -> None:
    provider.lies, provider.forged = lies, forged

    refused = signed_in(browser)

    assert refused.status_code == 403
    assert "the provider did not sign you in" in refused.text
    assert interlock.dispatch.access_tokens.all() == []


def test_the_answer_to_another_browser_and_a_code_used_twice_sign_nobody_in(
    browser: TestClient, interlock: Client
) -> None:
    back = at_provider(browser)
    cookies = dict(browser.cookies)
    browser.cookies.clear()
    assert browser.get(back).status_code == 403
    at_provider(browser)  # another attempt, of this browser
    assert browser.get(back).status_code == 403
    browser.cookies.clear()
    browser.cookies.update(cookies)
    assert browser.get(back).status_code == 303
    browser.cookies.update(cookies)
    assert browser.get(back).status_code == 403

    assert len(interlock.dispatch.access_tokens.all()) == 1


@pytest.mark.parametrize(
    ("person", "sentence"),
    [
        ({"groups": ["others"]}, "has no role here"),
        ({"groups": "admin"}, "has no role here"),
        ({"groups": None}, "has no role here"),
        ({"email": "a b@x", "preferred_username": "sweep"}, "use up to 100 letters"),
    ],
)
def test_who_has_no_role_or_no_usable_name_is_told_why(
    browser: TestClient,
    interlock: Client,
    provider: OidcProvider,
    person: dict[str, Any],
    sentence: str,
) -> None:
    provider.person |= person

    refused = signed_in(browser)

    assert sentence in refused.text
    assert interlock.dispatch.access_tokens.all() == []


def test_the_name_in_the_log_is_a_claim_that_proves_who_it_is(
    interlock: Client, provider: OidcProvider
) -> None:
    cases: list[tuple[dict[str, Any], str | None, str]] = [
        ({"email_verified": "true"}, None, "ann@example.org"),
        ({"email_verified": False}, None, "1"),
        ({"email_verified": "false"}, None, "1"),
        ({"email": None}, None, "1"),
        ({}, "preferred_username", "ann"),
        ({}, "sub", "1"),
    ]
    for person, claim, _ in cases:
        provider.person = ANN | person
        sign_in(interlock, provider, oidc_name_claim=claim)

    kept = interlock.dispatch.access_tokens.all()
    assert sorted(one.holder for one in kept) == sorted(name for *_, name in cases)


@pytest.mark.parametrize(
    ("person", "claim", "sentence"),
    [
        ({"email_verified": False}, "email", "has not verified your address of mail"),
        ({}, "nickname", "does not say your name in the claim nickname"),
        ({"sub": "x|1"}, "sub", r"'x\|1', from the claim sub, .*NAME_CLAIM can name another"),
    ],
)
def test_a_claim_that_gives_no_name_signs_nobody_in(
    interlock: Client, provider: OidcProvider, person: dict[str, Any], claim: str, sentence: str
) -> None:
    provider.person = ANN | person

    with pytest.raises(NotSignedInError, match=sentence):
        sign_in(interlock, provider, oidc_name_claim=claim)
    assert interlock.dispatch.access_tokens.all() == []


def test_roles_may_be_given_by_another_claim_than_the_name(
    interlock: Client, provider: OidcProvider
) -> None:
    roles = {"ann": "operator"}
    sign_in(interlock, provider, oidc_claim="preferred_username", oidc_roles=roles)

    (kept,) = interlock.dispatch.access_tokens.all()
    assert (kept.holder, kept.roles) == ("ann@example.org", ("operator",))


def test_a_provider_that_is_away_is_reported(browser: TestClient, provider: OidcProvider) -> None:
    provider.server.shutdown()
    provider.server.socket.close()

    refused = browser.get("/login/provider")

    assert refused.status_code == 403
    assert "the provider cannot be asked" in refused.text


def test_the_providers_own_refusal_and_a_cookie_of_nonsense_are_answered_in_words(
    browser: TestClient,
) -> None:
    state = parse_qs(urlsplit(at_provider(browser)).query)["state"][0]
    said = {"state": state, "error": "access_denied", "error_description": "you said no"}
    refused = browser.get("/login/provider/back", params=said)
    browser.cookies.clear()
    browser.cookies.set("interlock_attempt", "eyJzdGF0ZSI6IDF9")  # {"state": 1}
    nonsense = browser.get("/login/provider/back", params=said)

    assert (refused.status_code, nonsense.status_code) == (403, 403)
    assert "access_denied: you said no" in refused.text
    assert "not the browser that began" in nonsense.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"authorization_endpoint": 3},
        {"authorization_endpoint": "http://["},
        {"token_endpoint": "http://a:b/"},
        {"keys": 3},
        {"keys": None},
    ],
    ids=str,
)
def test_a_provider_that_answers_in_another_shape_signs_nobody_in(
    interlock: Client, provider: OidcProvider, wrong: dict[str, Any]
) -> None:
    (name,) = wrong

    def changed(answer: dict[str, Any]) -> dict[str, Any]:
        changes = answer | wrong if name in answer else answer
        return {each: value for each, value in changes.items() if value is not None}

    provider.changes = changed
    with pytest.raises(NotSignedInError):
        sign_in(interlock, provider)


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances)
def test_a_provider_whose_answers_are_nearly_right_makes_no_fault(
    interlock: Client, provider: OidcProvider, chance: Random
) -> None:
    def changed(answer: Any) -> Any:
        return damaged(answer, chance) if chance.random() < OFTEN else answer

    provider.changes = changed
    with suppress(NotSignedInError, InvalidPayloadError):
        sign_in(interlock, provider)


@pytest.mark.fuzz
@given(chance=chances)
def test_any_cookie_is_an_attempt_or_none(chance: Random) -> None:
    whole = Attempt("state", "nonce", "verifier", "/inbox")
    fields = json.dumps(damaged(asdict(whole), chance)).encode()
    for text in (urlsafe_b64encode(fields), torn(whole.as_text().encode(), chance)):
        found = Attempt.of(text.decode("latin-1"))
        assert found is None or Attempt.of(found.as_text()) == found


def sign_in(interlock: Client, provider: OidcProvider, **chosen: Any) -> None:
    """Sign a person in as the console does with chosen settings, without a browser."""
    asked = Provider(interlock.settings.model_copy(update=chosen))
    address, attempt = asked.begin(f"{SITE}/back", "/")
    query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    provider._codes["code"] = query
    asked.finish(interlock, attempt, "code", f"{SITE}/back")
