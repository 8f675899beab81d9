"""The tools of agents for the mail of long-lived agents. Their docstrings are what agents read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from interlock.system.tools import ToolCall

LISTED_MAX = 200


def read_mail(
    call: ToolCall,
    record_id: Annotated[str, Field(description="That of a long-lived agent, as `owl/1`.")],
    limit: Annotated[int, Field(ge=1, le=LISTED_MAX)] = 50,
) -> list[dict[str, Any]]:
    """Read the newest mail of a long-lived agent, read or not, the newest first."""
    return [asdict(each) for each in call.client(record_id).mail(record_id, limit=limit)]


def send_mail(
    call: ToolCall,
    to: Annotated[str, Field(description="The name of a long-lived agent.")],
    text: str,
    mail_id: Annotated[
        str, Field(description="A new id of your own: a repeated call sends nothing more.")
    ],
) -> dict[str, Any]:
    """Send mail to a long-lived agent, which reads it in its next session."""
    return call.send("send", {"to": to, "text": text}, mail_id)


READS = (read_mail,)
SUBMITS = (send_mail,)
