"""A message is posted once, signed, and only to an address that was checked."""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64decode
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from interlock.systems.webhooks import post as webhook
from interlock.systems.webhooks.post import (
    WebhookAnswer,
    WebhookError,
    is_public,
    post,
    signed_headers,
)
from tests.damage import chances, torn
from tests.fakes.webhook_receiver import CLOSE, HANG, receiver

BODY = b'{"test": 2432232314}'


def posted(url: str, *, allow_private: bool = True, **headers: str) -> WebhookAnswer:
    return asyncio.run(post(url, headers, BODY, allow_private=allow_private))


def test_the_signature_is_that_of_the_specifications_example() -> None:
    secret = b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    headers = signed_headers([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, BODY)

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_while_a_secret_is_changed_both_sign() -> None:
    old, new = (signed_headers([key], "m", 1, BODY)["webhook-signature"] for key in (b"a", b"b"))

    assert signed_headers([b"a", b"b"], "m", 1, BODY)["webhook-signature"] == f"{old} {new}"


def test_a_message_arrives_with_its_headers_and_the_name_of_the_host() -> None:
    with receiver() as there:
        url = there.address.replace("127.0.0.1", "localhost")
        assert posted(url, webhook="yes") == WebhookAnswer(204)

    (request,) = there.requests
    assert (request.body, request.headers["webhook"]) == (BODY, "yes")
    assert request.headers["host"] == url.split("/")[2]


@pytest.mark.parametrize(
    ("answer", "status", "retry_after_s"),
    [
        (500, 500, None),
        (410, 410, None),
        ((503, {"retry-after": "120"}), 503, 120),
        ((503, {"retry-after": "99999999"}), 503, 86_400),
        ((503, {"retry-after": "soon"}), 503, None),
        ((302, {"location": "http://169.254.169.254/latest/meta-data"}), 302, None),
    ],
)
def test_the_answer_is_reported_and_no_redirect_followed(
    answer: Any, status: int, retry_after_s: int | None
) -> None:
    with receiver(answer) as there:
        assert posted(there.address) == WebhookAnswer(status, retry_after_s)

    assert len(there.requests) == 1


def test_an_endpoint_may_name_the_time_of_the_next_attempt() -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    with receiver((429, {"retry-after": at})) as there:
        answer = posted(there.address)

    assert answer.retry_after_s is not None
    assert 3_000 < answer.retry_after_s <= 3_600


def test_an_endpoint_that_hangs_is_left_when_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT_S", 0.2)
    with receiver(HANG) as there, pytest.raises(WebhookError, match=r"not answered in 0\.2 s"):
        posted(there.address)


def test_a_connection_that_is_closed_is_an_error_without_the_path() -> None:
    with receiver(CLOSE) as there, pytest.raises(WebhookError) as refusal:
        posted(there.address)

    assert "private-path" not in str(refusal.value)


def test_a_private_address_is_reached_only_where_it_is_allowed() -> None:
    with receiver() as there:
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
            url = there.address.replace("127.0.0.1", host)
            with pytest.raises(WebhookError, match="no address of the internet"):
                posted(url, allow_private=False)

    assert not there.requests


def test_the_address_that_was_checked_is_the_one_that_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that leads elsewhere at its second resolution is resolved only once."""
    asked: list[Any] = []

    async def resolve(_: Any, host: str, port: int, **options: Any) -> list[Any]:
        del options
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
    with receiver() as there:
        assert posted(there.address.replace("127.0.0.1", "hook.example")).status == 204

    assert asked == ["hook.example"]
    assert there.requests[0].headers["host"].startswith("hook.example:")


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("10.0.0.1", False),
        ("100.100.100.200", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),  # noqa: S104 - nothing is bound
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00:ec2::254", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("2002:a00:1::", False),
        ("64:ff9b::5db8:d70e", True),  # how a network without IPv4 reaches one of the internet
        ("::ffff:93.184.215.14", True),
        ("192.88.99.1", False),
        ("192.0.0.9", False),
        ("::127.0.0.1", False),
        ("::a00:1", False),
        ("::ffff:0:a00:1", False),
        ("64:ff9b:1::a00:1", False),
        ("2002:5db8:d70e::1", False),
        ("2001::1", False),
        ("2001:20::1", False),
        ("2001:db8::1", False),
        ("3fff::1", False),
        ("4000::1", False),
        ("5f00::1", False),
        ("fec0::1", False),
        ("ff0e::1", False),
    ],
)
def test_only_an_address_of_the_internet_is_public(address: str, public: bool) -> None:  # noqa: FBT001
    assert is_public(address) is public


def certificate(folder: Path, name: str) -> Path:
    """Write a certificate of this name, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    text = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    file = folder / f"{name}.pem"
    file.write_bytes(
        key.private_bytes(text, form, serialization.NoEncryption()) + made.public_bytes(text)
    )
    return file


@pytest.mark.parametrize("name", ["hook.example", "other.example"])
def test_the_certificate_must_have_the_name_although_the_address_is_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(_: Any, host: str, port: int, **options: Any) -> list[Any]:
        del host, options
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    file = certificate(tmp_path, name)
    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
    trusted = ssl.create_default_context(cafile=str(file))
    monkeypatch.setattr(webhook, "_certificates", lambda: trusted)
    with receiver(certificate=file) as there:
        url = there.address.replace("http://127.0.0.1", "https://hook.example")
        if name == "hook.example":
            assert posted(url).status == 204
        else:
            with pytest.raises(WebhookError, match=r"not valid for 'hook\.example'"):
                posted(url)


DATES = ("Mon, 01 Jan 0001 00:00:00 +2359", "Fri, 31 Dec 9999 23:59:59 -2359", "9" * 5_000, "\xb2")


@pytest.mark.fuzz
@given(st.sampled_from(DATES) | st.text(st.characters(max_codepoint=255), max_size=30))
def test_any_time_of_the_next_attempt_is_within_a_bound(text: str) -> None:
    seconds = webhook._seconds(text)
    assert seconds is None or 0 <= seconds <= webhook.RETRY_AFTER_S_MAX


@pytest.mark.fuzz
@given(chances)
def test_an_answer_that_is_nearly_http_is_an_answer_or_an_error(chance: Random) -> None:
    whole = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno"

    async def exchange() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(torn(whole, chance))
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1")
        async with server:
            port = server.sockets[0].getsockname()[1]
            with suppress(WebhookError):
                await post(f"http://127.0.0.1:{port}/", {}, BODY, allow_private=True)

    asyncio.run(exchange())
