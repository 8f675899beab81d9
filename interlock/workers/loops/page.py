"""The page of long-lived agents in the console: sessions, output, and mail both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.kernel.event import Note
from interlock.kernel.record import Record
from interlock.workers.client import Client
from interlock.workers.loops.client import Loops
from interlock.workers.loops.output_source import session_output
from interlock.workers.loops.paths import name_of
from interlock.workers.loops.screen import waiting_mail
from interlock.workers.supervision.agent_output import agent_output
from interlock.workers.terminal.page import (
    ActForm,
    Cell,
    CopyableText,
    InputField,
    LongText,
    NamedCells,
    PageAct,
    Part,
    Query,
    RecordLink,
    Section,
    Sentence,
    Since,
    StateName,
    SystemPage,
    Table,
    Until,
    ViewLink,
)

MAIL_MAX = 30
LINES_MAX = 40
NOTES_READ = 500
KINDS = ("message", "task", "status", "nudge")


def view(client: Client, query: Query) -> list[Section]:
    """Return all agents, or everything about the one with this `agent` name."""
    loops = Loops(client)
    if name := query.get("agent"):
        return _agent(loops, name)
    rows = [_row(row) for row in loops.list()]
    columns = ("Agent", "State", "For", "Session", "Errors", "Mail", "Computer", "Why")
    empty = "There is no long-lived agent. `interlock agent start` starts one."
    return [Section("Agents", (Table(columns, rows, empty),))]


def panel(client: Client, record: Record) -> list[Section]:
    """Return the link to everything about an agent, and the end of its output."""
    loops, name = Loops(client), name_of(record.id)
    link = Sentence(
        ViewLink(f"{name}: its session, its mail, and a form to send it some", _of(name))
    )
    if loops.latest_life(name) != record.id:
        said = Sentence("This record is an earlier life of the agent.", "soft")
        return [Section("Agent", (link, said))]
    return [Section("Agent", (link,)), _output(loops, record, _notes(loops, record))]


def send(client: Client, fields: Query) -> ViewLink:
    """Send mail to an agent, under the name of who sends the form."""
    name = fields.get("agent", "")
    chosen = {each: fields[each] for each in ("kind", "thread", "reply_to") if fields.get(each)}
    text = fields.get("text", "").replace("\r\n", "\n")
    urgent = fields.get("urgent") == "yes"
    Loops(client).send(name, text, sender=client.actor, urgent=urgent, **chosen)
    return ViewLink("", _of(name))


def _of(name: str) -> dict[str, str]:
    return {"agent": name}


def _row(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    return (
        ViewLink(row["name"], _of(row["name"])),
        StateName(row["state"]),
        Since(row["since_ms"]),
        row["session"],
        f"{row['errors']} in a row, {row['errors_in_all']} in all",
        waiting_mail(row),
        row["host"],
        row["why"],
    )


def _agent(loops: Loops, name: str) -> list[Section]:
    value = loops.show(name)
    record = loops.client.show(value["id"])
    notes = _notes(loops, record)
    sections = [
        Section("Session", (NamedCells(_facts(value)),)),
        _output(loops, record, notes),
        Section("Mail to it", (_mail_in(value["mail"]),)),
        Section("Mail from it", (_mail_out(loops, notes),)),
    ]
    if value["state"] != "stopped":
        sections.append(Section("Send mail", (_form(name),), is_live=False))
    if value["prompt"]:
        text = (LongText(value["prompt"]),)
        sections.append(Section("The prompt of its session", text, is_live=False))
    return sections


def _facts(value: Mapping[str, Any]) -> dict[str, Cell]:
    last, stopped = value.get("last") or {}, value.get("stopped") or {}
    copied = {
        "repository" if name == "repo" else name: CopyableText(str(value[name]))
        for name in ("command", "repo", "branch", "worktree")
        if value.get(name)
    }
    due = {f"timer {name}": Until(at_ms) for name, at_ms in value["due"].items()}
    return {
        "record": RecordLink(value["id"]),
        "state": StateName(value["state"]),
        "since": Since(value["since_ms"]),
        "session": value["session"],
        **copied,
        "computer": str(value.get("host") or ""),
        "next session": str(value.get("next") or "").replace("_", " "),
        "process": str(value.get("pid") or ""),
        "errors": f"{value['errors']} in a row, {value['errors_in_all']} in all",
        "last session": f"{last.get('outcome', '')} {last.get('detail') or ''}".strip(),
        "stopped": f"{stopped['by']}: {stopped['reason']}" if stopped else "",
        **due,
    }


def _output(loops: Loops, record: Record, notes: Sequence[Note]) -> Section:
    """Return the end of the last session's output, and its last reports."""
    output = agent_output(loops.dispatch, record.id, session_output(record))
    parts: list[Part] = [output]
    rows = [
        (Since(note.at_ms), str(note.detail["message"]))
        for note in notes
        if note.kind == "progress"
    ]
    if rows:
        parts.append(Table(("Age", "It reported"), rows[:LINES_MAX]))
    return Section("Output", parts)


def _notes(loops: Loops, record: Record) -> list[Note]:
    """Return the notes among the last lines of a life's log, the newest first."""
    log = loops.dispatch.views.latest([record.id], NOTES_READ)[record.id]
    return [line for line in log if isinstance(line, Note)]


def _mail_in(mail: list[Mapping[str, Any]]) -> Table:
    rows = [
        (
            Since(one["at_ms"]),
            one["sender"],
            f"urgent {one['kind']}" if one["urgent"] else one["kind"],
            "delivered" if one["delivered"] else "waits",
            one["text"],
            one["id"],
        )
        for one in mail
    ]
    columns = ("Age", "From", "Kind", "State", "Text", "Id")
    return Table(columns, rows, "Nobody has written to it.")


def _mail_out(loops: Loops, notes: Sequence[Note]) -> Table:
    """Return what a life of an agent has sent, and what became of it, from its notes."""
    states = {"mail_sent": "sent", "mail_refused": "refused", "mail_lost": "lost"}
    shown = [note for note in notes if note.kind in states][:MAIL_MAX]
    sent = {_message_of(note) for note in shown if note.kind == "mail_sent"}
    found = loops.dispatch.inboxes.some(sent)
    texts = {message: str(mail.fields["text"]) for message, mail in found.items()}
    rows = [
        (
            Since(note.at_ms),
            ViewLink(note.detail["to"], _of(note.detail["to"])),
            states[note.kind],
            texts.get(_message_of(note)) or str(note.detail.get("reason", "")),
        )
        for note in shown
    ]
    return Table(("Age", "To", "State", "Text"), rows, "It has written to nobody.")


def _message_of(note: Note) -> tuple[str, str]:
    """Return to whom a message went, and its id."""
    return str(note.detail["to"]), str(note.detail.get("mail", ""))


def _form(name: str) -> ActForm:
    fields = (
        InputField("text", "Text", form="long", is_required=True),
        InputField("kind", "Kind", form="choice", choices=KINDS),
        InputField("urgent", "Urgent: interrupt its session", form="yes"),
        InputField("thread", "Thread that it belongs to"),
        InputField("reply_to", "Id of the mail that it answers"),
    )
    return ActForm("send", "Send", fields, {"agent": name})


PAGE = SystemPage(
    title="Agents",
    question="What do the long-lived agents do?",
    machines=("loop",),
    view=view,
    panels={"loop": panel},
    acts={"send": PageAct("submit", send)},
)
