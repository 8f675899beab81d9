"""An OpenID Connect provider on this machine. A script says whom it signs in, and how it lies.

It does what a real one does between the browser, the console and itself: discovery, keys, codes
that work once and only with their PKCE verifier, and a signed token.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc.jwk import RSAKey
from joserfc.jws import serialize_compact

HOST = "127.0.0.1"
KEY = RSAKey.generate_key(2048, {"kid": "first"})
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "first"})


class OidcProvider:
    """The provider. `person` is what it says of who signs in; `lies` replace fields of its token.

    With `forged`, the token is signed by a key that is not published. `changes` makes another
    answer of each: the addresses, the keys, the claims, and what holds the token.
    """

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.person: dict[str, Any] = {"sub": "1"}
        self.lies: dict[str, Any] = {}
        self.forged = False
        self.changes: Callable[[Any], Any] = lambda answer: answer
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = urlsplit(self.path)
                provider.get(self, found.path, parse_qs(found.query))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, answer = provider.token({k: v[0] for k, v in parse_qs(body).items()})
                send(self, status, answer)

            def log_message(self, *_: Any) -> None:
                """Write nothing."""

        self.server = ThreadingHTTPServer((HOST, 0), Handler)

    @property
    def issuer(self) -> str:
        """Its address."""
        return f"http://{HOST}:{self.server.server_address[1]}"

    def get(self, handler: BaseHTTPRequestHandler, path: str, query: Mapping[str, Any]) -> None:
        """Answer a question about addresses or keys, or send a browser back with a code."""
        if path == "/.well-known/openid-configuration":
            addresses = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
            send(handler, 200, self.changes(addresses))
        elif path == "/keys":
            send(handler, 200, self.changes({"keys": [KEY.as_dict(private=False)]}))
        else:
            asked = {name: values[0] for name, values in query.items()}
            code = f"code-{len(self._codes)}"
            self._codes[code] = asked
            handler.send_response(302)
            back = urlencode({"code": code, "state": asked["state"]})
            handler.send_header("Location", f"{asked['redirect_uri']}?{back}")
            handler.end_headers()

    def token(self, asked: Mapping[str, str]) -> tuple[int, Any]:
        """Return the answer to a code: a token, if its verifier fits."""
        begun = self._codes.pop(asked.get("code", ""), None)
        digest = sha256(asked.get("code_verifier", "").encode()).digest()
        challenge = urlsafe_b64encode(digest).decode().rstrip("=")
        if begun is None or begun["code_challenge"] != challenge:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": self.client_id,
            "iat": now,
            "exp": now + 300,
            "nonce": begun["nonce"],
            **self.person,
            **self.lies,
        }
        key = OTHER_KEY if self.forged else KEY
        said = json.dumps(self.changes(claims)).encode()
        signed = serialize_compact({"alg": "RS256", "kid": "first"}, said, key)
        answer = {"access_token": "unused", "token_type": "Bearer", "id_token": signed}
        return 200, self.changes(answer)


def send(handler: BaseHTTPRequestHandler, status: int, answer: Any) -> None:
    """Answer with JSON."""
    body = json.dumps(answer).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def oidc_provider(client_id: str) -> Iterator[OidcProvider]:
    """Run a provider until the block ends."""
    provider = OidcProvider(client_id)
    thread = threading.Thread(target=provider.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield provider
    finally:
        provider.server.shutdown()
        thread.join()
        provider.server.server_close()
