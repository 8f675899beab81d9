"""Sends a delivery to its endpoint, once, and reports the outcome."""

from __future__ import annotations

import asyncio
import random
import time
from http import HTTPStatus
from typing import Any

from interlock import EffectWork, Outcome
from interlock.system.text import one_line
from interlock.systems.webhooks.endpoints import Endpoint, open_endpoints
from interlock.systems.webhooks.machines.delivery.names import Trigger
from interlock.systems.webhooks.machines.delivery.payloads import DeliveryData
from interlock.systems.webhooks.message import MessageBody, NothingToTellError, body_of, data_of
from interlock.systems.webhooks.places import open_places
from interlock.systems.webhooks.post import WebhookAnswer, WebhookError, post, signed_headers


async def webhook(work: EffectWork[DeliveryData]) -> Outcome:
    """Post the message of a delivery, unless many to its endpoint are on their way already.

    A worker that is lost after the endpoint has taken it leaves the message to be sent again, under
    the same id.
    """
    name = work.record.data["endpoint"]
    endpoints = work.resources.get(open_endpoints)
    endpoint = next((each for each in endpoints if each.name == name), None)
    if endpoint is None:
        return _failed(f"this worker's INTERLOCK_WEBHOOKS names no endpoint {name}")
    async with work.resources.get(open_places).place(name):
        return await _send(work, endpoint)


async def _send(work: EffectWork[DeliveryData], endpoint: Endpoint) -> Outcome:
    try:
        body = await asyncio.to_thread(_body, work, endpoint)
    except NothingToTellError as why:
        return Outcome(Trigger.DROPPED, {"reason": str(why)})
    at_s = int(time.time())  # the receiver compares it with its own clock
    headers = {"content-type": body.content_type, "user-agent": "interlock"}
    headers |= signed_headers(endpoint.keys, work.record.id, at_s, body.content)
    url, private = endpoint.url.get_secret_value(), endpoint.allow_private
    try:
        answer = await post(url, headers, body.content, allow_private=private)
    except WebhookError as why:
        return _failed(str(why))
    return _outcome(answer)


def _body(work: EffectWork[DeliveryData], endpoint: Endpoint) -> MessageBody:
    return body_of(work, data_of(work, endpoint.answers_as), endpoint.format)


def _outcome(answer: WebhookAnswer) -> Outcome:
    status = answer.status
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return Outcome(Trigger.DELIVERED, {"status": status})
    detail = f"it answered {status}"
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        detail += ", and redirects are not followed"
    gone = status == HTTPStatus.GONE
    return _failed(detail, status=status, gone=gone, retry_after_s=answer.retry_after_s)


def _failed(detail: str, **more: Any) -> Outcome:
    known = {name: value for name, value in more.items() if value is not None}
    jitter = random.random()  # noqa: S311 - it spreads attempts, and protects nothing
    return Outcome(Trigger.FAILED, {"detail": one_line(detail), "jitter": jitter, **known})
