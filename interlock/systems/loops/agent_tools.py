"""The tools of agents for the mail of long-lived agents."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from mcp.server.mcpserver import Context
from pydantic import Field

from interlock import Client
from interlock.system.tools import (
    CHANGES,
    READS,
    Act,
    Fields,
    Limit,
    OfferedTool,
    Reach,
    offered_tool,
    said,
    send_by,
)


def tools(reach: Reach) -> list[OfferedTool]:
    """Return the tools. Each call is allowed or refused by `reach`."""
    mail = MailTools(reach)
    return [
        offered_tool(Act.READ, mail.read_mail, READS),
        offered_tool(Act.SUBMIT, mail.send_mail, CHANGES),
    ]


class MailTools:
    """The tools. Their docstrings are what agents read."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach

    def read_mail(
        self,
        context: Context,
        record_id: Annotated[str, Field(description="That of a long-lived agent, as `owl/1`.")],
        limit: Limit = 50,
    ) -> list[Fields]:
        """Read the newest mail of a long-lived agent, read or not, the newest first."""
        with said():
            client = self.reach(context, Act.READ, record_id)
            if isinstance(client, Client):
                found = client.dispatch.inboxes.latest(client.show(record_id).id, limit)
            else:
                found = client.mail(record_id, limit=limit)
        return [asdict(each) for each in found]

    def send_mail(
        self,
        context: Context,
        to: Annotated[str, Field(description="The name of a long-lived agent.")],
        text: str,
        mail_id: Annotated[
            str, Field(description="A new id of your own: a repeated call sends nothing more.")
        ],
    ) -> Fields:
        """Send mail to a long-lived agent, which reads it in its next session."""
        return send_by(self.reach, context, "send", {"to": to, "text": text}, mail_id)
