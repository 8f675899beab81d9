"""The tools through which agents read records, and submit, cancel and decide where they may."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any, Protocol

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import Field

from interlock.kernel.errors import KernelError
from interlock.kernel.shortened import shortened
from interlock.workers.access.roles import Act
from interlock.workers.client import Client
from interlock.workers.engine.card import Card
from interlock.workers.mcp.tool_server import OfferedTool
from interlock.workers.ops.description import describe, line_shown
from interlock.workers.producer_message import send_message, submit
from interlock.workers.remote.client import HttpClient

Verbs = Client | HttpClient
Fields = dict[str, Any]
Id = Annotated[str, Field(description="The id of a record.")]
Words = Annotated[str, Field(description="Words of the title.")]
OwedEffect = Annotated[str, Field(description="An effect owed or at work, as `inference`.")]
Prefix = Annotated[str, Field(description="The beginning of their ids.")]
Seconds = Annotated[
    int, Field(ge=0, le=10**9, description="So many seconds, or longer, in their state.")
]
Cursor = Annotated[str, Field(description="`next` of the page before.")]
Limit = Annotated[int, Field(ge=1, le=200)]
LINES_MAX = 200
QUESTION_MAX = 160  # letters of each question in a list: fifty cards fit the window of a model
READS = ToolAnnotations(read_only_hint=True)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True)
ENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True)


class Reach(Protocol):
    """Gives a tool the client of its caller. Raises KernelError if an act is not allowed."""

    def __call__(self, context: Context, act: Act, record_id: str = "", /) -> Verbs:
        """Return the client. `record_id` is the record that the act is about, if it is one."""


def offered_tools(reach: Reach) -> list[OfferedTool]:
    """Return the tools. Each call is allowed or refused by `reach`."""
    tools = Tools(reach)
    offered: list[tuple[Act, Callable[..., Any], ToolAnnotations]] = [
        (Act.READ, tools.list_records, READS),
        (Act.READ, tools.show_record, READS),
        (Act.READ, tools.why_not, READS),
        (Act.READ, tools.read_history, READS),
        (Act.READ, tools.list_cards, READS),
        (Act.READ, tools.show_cards, READS),
        (Act.READ, tools.read_mail, READS),
        (Act.READ, tools.count_records, READS),
        (Act.SUBMIT, tools.submit, CHANGES),
        (Act.SUBMIT, tools.cancel, ENDS),
        (Act.SUBMIT, tools.send_mail, CHANGES),
        (Act.SUBMIT, tools.report, CHANGES),
        (Act.DECIDE, tools.decide, ENDS),
    ]
    return [OfferedTool(act, _tool(function, hints)) for act, function, hints in offered]


def _tool(function: Callable[..., Any], hints: ToolAnnotations) -> Tool:
    tool = Tool.from_function(function, annotations=hints)
    tool.parameters["additionalProperties"] = False
    return tool


class Tools:
    """The tools. Their docstrings are what agents read."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach

    def list_records(
        self,
        context: Context,
        machine: str = "",
        state: str = "",
        effect: OwedEffect = "",
        parent: str = "",
        id_prefix: Prefix = "",
        text: Words = "",
        in_state_s: Seconds = 0,
        limit: Limit = 50,
        cursor: Cursor = "",
    ) -> Fields:
        """List records, the newest first: of one machine, in one state, below one parent."""
        with _said():
            client = self.reach(context, Act.READ)
            page = client.page(
                machine=machine or None,
                state=state or None,
                effect=effect,
                parent=parent,
                id_prefix=id_prefix,
                text=text,
                since_ms=_since_ms(client, in_state_s),
                limit=limit,
                cursor=cursor,
            )
        return {"records": [asdict(row) for row in page.rows], "next": page.cursor}

    def show_record(self, context: Context, record_id: Id) -> Fields:
        """Show a record: its state, data, cards, children, failures and results."""
        with _said():
            client = self.reach(context, Act.READ, record_id)
            cards = list(map(_short, client.cards_of(record_id)))
            if isinstance(client, Client):
                return describe(client, record_id) | {"cards": cards}
            return client.describe(record_id) | {"cards": cards}

    def why_not(self, context: Context, record_id: Id) -> list[Fields]:
        """Say for every trigger of a record what it would do now, or why it would not."""
        with _said():
            found = self.reach(context, Act.READ, record_id).explain_all(record_id)
        return [asdict(each) for each in found]

    def read_history(self, context: Context, record_id: Id) -> list[Fields]:
        """Read the newest lines of a record's log, oldest first: what happened, who, and why."""
        with _said():
            lines = self.reach(context, Act.READ, record_id).history(record_id)
        return [line_shown(line) for line in lines[-LINES_MAX:]]

    def list_cards(
        self,
        context: Context,
        tag: Annotated[str, Field(description="Tags that a card has, with commas between.")] = "",
        limit: Limit = 50,
        cursor: Cursor = "",
    ) -> Fields:
        """List the questions that wait for a person, the longest waiting first.

        `show_cards` shows those of one record whole: what is proposed, and the fields of an answer.
        """
        with _said():
            page = self.reach(context, Act.READ).cards_page(limit=limit, cursor=cursor, tag=tag)
        return {"cards": list(map(_short, page.cards)), "next": page.cursor}

    def show_cards(self, context: Context, record_id: Id) -> list[Fields]:
        """Show the open cards of a record whole, with the schema of each answer."""
        with _said():
            cards = self.reach(context, Act.READ, record_id).cards_of(record_id)
        return [card.as_data() for card in cards]

    def read_mail(
        self,
        context: Context,
        record_id: Annotated[str, Field(description="That of a long-lived agent, as `owl/1`.")],
        limit: Limit = 50,
    ) -> list[Fields]:
        """Read the newest mail of a long-lived agent, read or not, the newest first."""
        with _said():
            client = self.reach(context, Act.READ, record_id)
            if isinstance(client, Client):
                found = client.dispatch.inboxes.latest(client.show(record_id).id, limit)
            else:
                found = client.mail(record_id, limit=limit)
        return [asdict(each) for each in found]

    def count_records(
        self,
        context: Context,
        machine: str = "",
        state: str = "",
        effect: OwedEffect = "",
        parent: str = "",
        id_prefix: Prefix = "",
        text: Words = "",
        in_state_s: Seconds = 0,
    ) -> Fields:
        """Count the records in each state, of those that `list_records` lists.

        `more`: with a parent, an id or a text at most 10,000 records are read, and there are more.
        """
        with _said():
            client = self.reach(context, Act.READ)
            found = client.counts(
                machine=machine or None,
                state=state or None,
                effect=effect,
                parent=parent,
                id_prefix=id_prefix,
                text=text,
                since_ms=_since_ms(client, in_state_s),
            )
        return asdict(found)

    def submit(
        self,
        context: Context,
        machine: Annotated[str, Field(description="Such as `thread`.")],
        record_id: Annotated[
            str, Field(description="A new id of your own: a repeated call creates nothing more.")
        ],
        payload: Fields,
    ) -> Fields:
        """Create a record, which starts its work. Its payload is that of its machine.

        That of a thread is {"inciting": {"source": "agent", "title": "...", "text": "..."}}.
        """
        with _said():
            client = self.reach(context, Act.SUBMIT)
            if isinstance(client, Client):
                fields = {"id": record_id, "machine": machine, "payload": payload}
                found = submit(client, fields)
                return {"id": found["record"], "replayed": found["answer"] == "known"}
            done = client.submit(payload, id=record_id, machine=machine)
        return {"id": done.id, "replayed": done.replayed}

    def cancel(self, context: Context, record_id: Id, reason: str) -> Fields:
        """End a record, or ask its running action to stop."""
        with _said():
            after = self.reach(context, Act.SUBMIT, record_id).cancel(record_id, reason=reason)
        return {"id": after.id, "state": after.state}

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
        return self._send(context, "send", {"to": to, "text": text}, mail_id)

    def report(
        self,
        context: Context,
        key: Annotated[str, Field(description="The key of your claim of a task.")],
        token: Annotated[str, Field(description="The token of your claim.")],
        type: Annotated[str, Field(description="Such as `progress`.")],  # noqa: A002 - its name
        report_id: Annotated[
            str, Field(description="A new id of your own: a repeated call reports nothing more.")
        ],
        fields: Fields | None = None,
    ) -> Fields:
        """Report on the task that you have claimed. Each type has its fields.

        `heartbeat` (none: you are still at work; report so at least once a minute), `ready` (none:
        you begin), `progress` (message, percent), `usage` (tokens_in, tokens_out, cost_micro: what
        was used since the last report), `tool_started` (tool, id), `tool_completed` (tool, id,
        success), `verify_requested` (summary: the work is done), `failed` (error), `blocked` (task
        or text: what you wait for), `split` (subtasks, each with a title), `cancel_child` (child).
        The answer has the state of the task, and an order to you: go, pause, stop or lost.
        """
        sent = {"key": key, "token": token, "type": type, "fields": fields or {}}
        return self._send(context, "report", sent, report_id)

    def decide(
        self,
        context: Context,
        record_id: Id,
        choice: Annotated[str, Field(description="One of the card's affordances.")],
        proposal: Annotated[str, Field(description="That of the card, which says what was seen.")],
        answer: Fields | None = None,
    ) -> Fields:
        """Answer a card in the name of the person whose token you have. Ask that person first."""
        with _said():
            client = self.reach(context, Act.DECIDE, record_id)
            after = client.decide(record_id, choice, answer, proposal=proposal)
        return {"id": after.id, "state": after.state}

    def _send(self, context: Context, kind: str, fields: Fields, op_id: str) -> Fields:
        with _said():
            client = self.reach(context, Act.SUBMIT)
            if isinstance(client, Client):
                sent: Fields = send_message(client, kind, fields, op_id)
            else:
                sent = client.send(kind, fields, op_id=op_id)
        return sent


def _short(card: Card) -> Fields:
    """Return what an agent needs of a card to choose among many."""
    return {
        "record_id": card.record_id,
        "question": shortened(card.question, QUESTION_MAX),
        "choices": ", ".join(each.name for each in card.affordances),
        "proposal": card.proposal,
    }


@contextmanager
def _said() -> Iterator[None]:
    """Give the sentence of an error to the agent."""
    try:
        yield
    except KernelError as refusal:
        raise ToolError(str(refusal)) from refusal


def _since_ms(client: Verbs, seconds: int) -> tuple[int, int] | None:
    """Return from when to when (ms) a record entered its state, if it is in it for so long."""
    return (0, client.now_ms() - seconds * 1_000) if seconds else None
