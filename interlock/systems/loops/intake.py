"""Starts long-lived agents and sends them mail, as the messages of producers ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock import Client, Submitted, validated
from interlock.git.errors import RefusedError
from interlock.system.errors import InvalidPayloadError
from interlock.system.records import Request
from interlock.system.tables import root_of
from interlock.systems.loops.client import Loops
from interlock.systems.loops.machines.loop.data import Life


class MailRequest(Request):
    """A message that sends mail to an agent. `LoopMail` checks the fields without a type here.

    The message's actor is the sender of the mail.
    """

    to: str
    text: Any
    kind: Any = None
    urgent: Any = None
    thread: Any = None
    reply_to: Any = None


def accept(client: Client, life: str, payload: Mapping[str, Any], priority: int) -> Submitted:
    """Start an agent: create the record <name>/<number of its life>.

    Raises CallError if the message can never be accepted, HeldError while an earlier life of the
    name is at work.
    """
    try:
        fields = _started_with(client, life, payload) or Loops(client).check(root_of(life), payload)
    except RefusedError as refusal:
        host = client.settings.host
        problem = f"{refusal}, or name in `host` the computer that has it: this one is {host}"
        raise InvalidPayloadError("the agent", [problem]) from refusal
    return client.submit(fields, id=life, machine="loop", priority=priority)


def _started_with(client: Client, life: str, payload: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a life that exists, if this payload is what it was started with.

    The message is being read again then. The repository is not checked again: since then it may
    have gone, or it is on another computer.
    """
    found: Life | None = client.records.views.records([life]).get(life)
    if found is None or found.machine != "loop":
        return None
    fields = {"host": found.data["host"], **payload}
    client.records.check_new("loop", fields)
    # The record has the path without symbolic links.
    fields["repo"] = str(Path(fields["repo"]).resolve())
    same = client.records.created_with("loop", {life: fields}).get(life)
    return fields if same else None


def send(client: Client, request: Mapping[str, Any]) -> dict[str, Any]:
    """Send mail, once for each id of a request; return the id of the mail. Raises CallError."""
    fields = validated(MailRequest, "the request", request)
    op_id = fields.pop("id")
    fields.pop("actor", None)
    fields["text"] = request["text"]
    mail = Loops(client).send(**fields, sender=client.actor, op_id=op_id)
    return {"mail": mail}
