"""Signs people in by an OpenID Connect provider: the authorization code flow, with PKCE.

A person gets an access token for a day, with the roles that the settings give to their groups. So
the sessions of these people are listed, limited and revoked like all other tokens.
"""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import OAuth2Client
from httpx2 import HTTPError, InvalidURL
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jwt import JWTClaimsRegistry, decode
from pydantic import TypeAdapter

from interlock.kernel.errors import InvalidPayloadError
from interlock.workers.access.roles import Role
from interlock.workers.access.tokens import check_name, make_token
from interlock.workers.api.problems import NOT_SIGNED_IN, RefusedRequestError
from interlock.workers.client import Client
from interlock.workers.config import Settings

WITHIN_S = 10.0  # for an answer of the provider
LATE_S = 60  # by so much its clock may differ
SESSION_DAYS = 1
MADE_BY = "sign-in"
SCOPE = "openid email profile"
NAME_SETTING = "INTERLOCK_OIDC_NAME_CLAIM"
# Without `none`, and without those whose key would be the secret of this client.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
DISCOVERY = "/.well-known/openid-configuration"
# What the libraries raise where a provider cannot be asked, or answers in another shape.
WRONG_ANSWERS = (HTTPError, InvalidURL, LookupError, TypeError, ValueError)
ADDRESSES = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class NotSignedInError(RefusedRequestError):
    """A person could not be signed in."""

    def __init__(self, detail: str) -> None:
        super().__init__(NOT_SIGNED_IN, detail)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to sign in, as its browser keeps it until the provider sends it back."""

    state: str
    nonce: str
    verifier: str
    then: str

    def as_text(self) -> str:
        """Return the attempt as the text of a cookie."""
        return urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def of(cls, text: str) -> Attempt | None:
        """Return the attempt that a cookie has, or None."""
        try:
            return TypeAdapter(cls).validate_json(urlsafe_b64decode(text.encode()))
        except ValueError:
            return None


class Provider:
    """The provider that the settings name. It is asked for its addresses and keys once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def addresses(self) -> dict[str, Any]:
        """The addresses of the provider. Raises NotSignedInError if it cannot be asked."""
        issuer = str(self.settings.oidc_issuer).rstrip("/")
        found = self._read(f"{issuer}{DISCOVERY}")
        if str(found.get("issuer", "")).rstrip("/") != issuer:
            raise NotSignedInError(f"the provider at {issuer} calls itself {found.get('issuer')}")
        if missing := [name for name in ADDRESSES if not isinstance(found.get(name), str)]:
            raise NotSignedInError(f"the provider at {issuer} does not say its {missing[0]}")
        return found

    def begin(self, back: str, then: str) -> tuple[str, Attempt]:
        """Return the address to which a browser is sent, and the attempt that it keeps."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        attempt = Attempt(state, nonce, verifier, then)
        try:
            with self._client(back) as client:
                address, _ = client.create_authorization_url(
                    self.addresses["authorization_endpoint"],
                    state=attempt.state,
                    code_verifier=attempt.verifier,
                    nonce=attempt.nonce,
                )
        except WRONG_ANSWERS as refusal:
            raise NotSignedInError(f"the provider has no usable address: {refusal}") from refusal
        return address, attempt

    def finish(self, client: Client, attempt: Attempt, code: str, back: str) -> str:
        """Return a new access token of the person who has signed in. Raises NotSignedInError."""
        claims = self._claims(attempt, code, back)
        text, _ = make_token(
            client.dispatch.access_tokens,
            self._name(claims),
            roles=self._roles(claims),
            machines=(),
            known_machines=client.machines,
            days=SESSION_DAYS,
            made_by=MADE_BY,
        )
        return text

    def _claims(self, attempt: Attempt, code: str, back: str) -> dict[str, Any]:
        """Return what the provider says of the person, from the token that it has signed."""
        try:
            with self._client(back) as client:
                address = self.addresses["token_endpoint"]
                answer = client.fetch_token(address, code=code, code_verifier=attempt.verifier)
            found: Any = self._read(self.addresses["jwks_uri"])
            keys = KeySet.import_key_set(found)
            token = decode(str(answer.get("id_token", "")), keys, algorithms=ALGORITHMS)
            registry = JWTClaimsRegistry(
                leeway=LATE_S,
                iss={"essential": True, "value": self.addresses["issuer"]},
                aud={"essential": True, "value": str(self.settings.oidc_client_id)},
                exp={"essential": True},
                sub={"essential": True},
                nonce={"essential": True, "value": attempt.nonce},
            )
            registry.validate(token.claims)
        except (AuthlibBaseError, JoseError, *WRONG_ANSWERS) as refusal:
            raise NotSignedInError(f"the provider did not sign you in: {refusal}") from refusal
        return dict(token.claims)

    def _roles(self, claims: dict[str, Any]) -> list[Role]:
        """Return the roles that the settings give to the groups of a person."""
        name = self.settings.oidc_claim
        found = claims.get(name) or []
        groups = {str(each) for each in (found if isinstance(found, list) else [found])}
        roles = [role for group, role in self.settings.oidc_roles.items() if group in groups]
        if not roles:
            raise NotSignedInError(
                f"{self._name(claims)} has no role here: INTERLOCK_OIDC_ROLES gives none for the "
                f"{name} {', '.join(sorted(groups)) or '(none)'}"
            )
        return [Role(role) for role in roles]

    def _name(self, claims: dict[str, Any]) -> str:
        """Return the name in the log, by a claim that proves who a person is.

        `preferred_username` proves nothing: people may choose it, and two may have the same. It is
        taken only where the settings name it.
        """
        chosen = self.settings.oidc_name_claim
        mail_is_checked = claims.get("email_verified") in (True, "true")
        claim = chosen or ("email" if claims.get("email") and mail_is_checked else "sub")
        if claim == "email" and not mail_is_checked:
            raise NotSignedInError(
                "the provider has not verified your address of mail, which is to be your name here "
                f"by {NAME_SETTING}=email"
            )
        name = claims.get(claim)
        if not isinstance(name, str):
            raise NotSignedInError(
                f"the provider does not say your name in the claim {claim}; "
                f"{NAME_SETTING} can name another one"
            )
        try:
            check_name(name, f"your name {name!r}, from the claim {claim},")
        except InvalidPayloadError as refusal:
            raise NotSignedInError(f"{refusal}; {NAME_SETTING} can name another claim") from refusal
        return name

    def _client(self, back: str) -> OAuth2Client:
        return OAuth2Client(
            self.settings.oidc_client_id,
            self.settings.oidc_client_secret,
            scope=SCOPE,
            redirect_uri=back,
            code_challenge_method="S256",
            timeout=WITHIN_S,
        )

    def _read(self, address: str) -> dict[str, Any]:
        try:
            with self._client("") as client:
                answer = client.request("GET", address, withhold_token=True)
                answer.raise_for_status()
                return dict(answer.json())
        except WRONG_ANSWERS as refusal:
            raise NotSignedInError(f"the provider cannot be asked: {refusal}") from refusal
