"""Posts one signed message to an address outside, as the specification Standard Webhooks says.

Names are resolved here, and the request goes to an address that was checked: a name that leads into
the own network, then or a moment later, reaches nothing there.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from ipaddress import IPv4Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:  # imported where a message is posted, because most processes have no webhook
    import ssl

TIMEOUT_S = 20.0
ADDRESSES_MAX = 4
RETRY_AFTER_S_MAX = 86_400
_PORTS = {"http": 80, "https": 443}
# Of these the last 32 bits are an address of IPv4, which is the one that is reached.
_CARRY_IPV4 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
# IANA has given out addresses of the internet in this network only, and parts of it are special:
# assignments of protocols with Teredo and ORCHID, documentation, 6to4. The lists of Python 3.11
# miss some, and most of what is outside.
_INTERNET = IPv6Network("2000::/3")
_SPECIAL = tuple(map(ip_network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_SPECIAL_IPV4 = tuple(map(ip_network, ("192.0.0.0/24", "192.88.99.0/24")))  # the last is of 6to4


class WebhookError(RuntimeError):
    """An endpoint gave no answer. The message says why, without the path of its address."""


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """The HTTP status of an answer, and how many seconds the endpoint asked to wait, if any."""

    status: int
    retry_after_s: int | None = None


def signed_headers(
    secrets: Iterable[bytes], message_id: str, at_s: int, body: bytes
) -> dict[str, str]:
    """Return the headers that prove who has sent a body, and when. Each secret signs it."""
    content = f"{message_id}.{at_s}.".encode() + body
    digests = (hmac.digest(secret, content, "sha256") for secret in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(f"v1,{b64encode(each).decode()}" for each in digests),
    }


async def post(
    url: str, headers: Mapping[str, str], body: bytes, *, allow_private: bool
) -> WebhookAnswer:
    """Post a body once, and return how the endpoint answered. A redirect is an answer too.

    Raises WebhookError.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            addresses = await _addresses(url, allow_private=allow_private)
            return await _post_to(addresses, url, headers, body)
    except TimeoutError:
        raise WebhookError(f"it has not answered in {TIMEOUT_S:g} s") from None


def is_public(text: str) -> bool:
    """Whether an IP address is one of the internet: of no own network, host or cloud service."""
    address = ip_address(text.partition("%")[0])
    if any(address in network for network in _CARRY_IPV4):
        address = IPv4Address(address.packed[-4:])
    if any(address in network for network in (*_SPECIAL, *_SPECIAL_IPV4)):
        return False
    is_given_out = isinstance(address, IPv4Address) or address in _INTERNET
    return is_given_out and address.is_global and not address.is_multicast


async def _addresses(url: str, *, allow_private: bool) -> list[str]:
    """Resolve the host of an address. Raises WebhookError where it must not be reached."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as refusal:
        raise WebhookError(f"{host} is not found: {refusal.strerror}") from None
    addresses = list(dict.fromkeys(str(row[4][0]) for row in found))
    private = [each for each in addresses if not is_public(each)]
    if private and not allow_private:
        sentence = f"{host} leads to {private[0]}, which is no address of the internet"
        raise WebhookError(f"{sentence}; allow_private lets its endpoint be there")
    return addresses[:ADDRESSES_MAX]


async def _post_to(
    addresses: Iterable[str], url: str, headers: Mapping[str, str], body: bytes
) -> WebhookAnswer:
    """Post to the first of the addresses that can be connected to."""
    import httpx2 as httpx  # noqa: PLC0415

    named = httpx.URL(url)
    # The name is still the one that the endpoint is asked for, and that its certificate must have.
    sent_headers = {**headers, "host": named.netloc.decode()}
    name = named.raw_host.decode()
    extensions = {"sni_hostname": name, "timeout": httpx.Timeout(TIMEOUT_S).as_dict()}
    failure: Exception = OSError("it has no address")
    # A client would log each address, whose path may be a secret, and read the environment.
    async with httpx.AsyncHTTPTransport(verify=_certificates()) as transport:
        for address in addresses:
            request = httpx.Request(
                "POST",
                named.copy_with(host=address),
                headers=sent_headers,
                content=body,
                extensions=extensions,
            )
            try:
                answer = await transport.handle_async_request(request)
            except httpx.ConnectError as refusal:
                failure = refusal
                continue
            except httpx.TransportError as refusal:
                raise WebhookError(_why(refusal)) from None
            with suppress(httpx.TransportError):
                await answer.aclose()
            return WebhookAnswer(answer.status_code, _seconds(answer.headers.get("retry-after")))
    raise WebhookError(_why(failure))


def _why(failure: Exception) -> str:
    name = type(failure).__name__
    return f"{name}: {failure}" if str(failure) else name


@cache
def _certificates() -> ssl.SSLContext:
    """Load the certificates that are trusted, once: it takes longer than a message."""
    import httpx2 as httpx  # noqa: PLC0415

    return httpx.create_ssl_context()


def _seconds(retry_after: str | None) -> int | None:
    """Return how many seconds a header Retry-After asks for, within a bound; None if nothing."""
    if retry_after is None:
        return None
    seconds: float | None = None
    if retry_after.strip().isdecimal():
        seconds = int(retry_after[:12])
    else:
        with suppress(ValueError):
            at = parsedate_to_datetime(retry_after)
            seconds = (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return None if seconds is None else min(max(0, int(seconds)), RETRY_AFTER_S_MAX)
