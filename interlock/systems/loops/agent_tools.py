"""The tools of agents for the mail of long-lived agents."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from pydantic import Field

from interlock.system.tools import Act, OfferedTool, Reach, offered_tool, send_by

LISTED_MAX = 200


def tools(reach: Reach) -> list[OfferedTool]:
    """Return the tools. Each call is allowed or refused by `reach`."""
    mail = MailTools(reach)
    return [
        offered_tool(Act.READ, mail.read_mail),
        offered_tool(Act.SUBMIT, mail.send_mail),
    ]


class MailTools:
    """The tools. Their docstrings are what agents read."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach

    def read_mail(
        self,
        context: Context,
        record_id: Annotated[str, Field(description="That of a long-lived agent, as `owl/1`.")],
        limit: Annotated[int, Field(ge=1, le=LISTED_MAX)] = 50,
    ) -> list[dict[str, Any]]:
        """Read the newest mail of a long-lived agent, read or not, the newest first."""
        found = self.reach(context, Act.READ, record_id).mail(record_id, limit=limit)
        return [asdict(each) for each in found]

    def send_mail(
        self,
        context: Context,
        to: Annotated[str, Field(description="The name of a long-lived agent.")],
        text: str,
        mail_id: Annotated[
            str, Field(description="A new id of your own: a repeated call sends nothing more.")
        ],
    ) -> dict[str, Any]:
        """Send mail to a long-lived agent, which reads it in its next session."""
        return send_by(self.reach, context, "send", {"to": to, "text": text}, mail_id)
