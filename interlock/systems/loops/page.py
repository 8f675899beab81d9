"""Long-lived agents as people see them: sessions, output, and mail both ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from interlock import Client, Note
from interlock.system.pages import (
    Button,
    Link,
    LivePart,
    PageAct,
    Part,
    Section,
    Sentence,
    StateName,
    SystemPage,
    Table,
    Time,
    Verbatim,
)
from interlock.systems.loops.client import Loops
from interlock.systems.loops.machines.loop.data import Life
from interlock.systems.loops.machines.loop.names import State
from interlock.systems.loops.paths import name_of

MAIL_MAX = 30
LINES_MAX = 40
NOTES_READ = 500
Row = Mapping[str, Any]


class SentMail(BaseModel):
    """What a person writes to an agent on its page."""

    text: str
    kind: Literal["message", "task", "status", "nudge"] = "message"
    urgent: Annotated[bool, Field(description="Urgent: interrupt its session")] = False
    thread: Annotated[str, Field(max_length=60, description="Thread that it belongs to")] = ""
    reply_to: Annotated[str, Field(max_length=60, description="Id of the mail that it answers")] = (
        ""
    )


def view(client: Client, query: Mapping[str, str]) -> list[Section]:
    """Return all agents, or everything about the one with this `agent` name."""
    loops = Loops(client)
    if name := query.get("agent"):
        return _agent(loops, name)
    return [Section("Agents", [agents(loops.list())])]


def agents(rows: Sequence[Row]) -> Table:
    """Return agents: the state of each and since when, its errors, and its waiting mail."""
    columns = ("Agent", "State", "For", "Session", "Errors", "Mail", "Computer", "Why")
    empty = "There is no long-lived agent. `interlock agent start` starts one."
    return Table(columns, [_row(row) for row in rows], empty)


def mail(rows: Iterable[Row]) -> Table:
    """Return mail to an agent, each with when it was delivered."""
    found = [
        (
            one["id"],
            Time(one["at_ms"]),
            one["sender"],
            f"urgent {one['kind']}" if one["urgent"] else one["kind"],
            _delivered(one),
            one["text"],
        )
        for one in rows
    ]
    columns = ("Mail", "Age", "From", "Kind", "Delivered", "Text")
    return Table(columns, found, "Nobody has written to it.")


def _delivered(one: Row) -> object:
    """Return when mail was delivered; that of old mail is not known any more."""
    if not one["delivered"]:
        return "waits"
    return Time(one["delivered_at_ms"]) if one["delivered_at_ms"] else "before"


def waiting_mail(row: Row) -> str:
    """Return how much mail waits for an agent, or '' if none does."""
    least = "at least " if row["mail_is_minimum"] else ""
    urgent = f", {row['urgent_waiting']} urgent" if row["urgent_waiting"] else ""
    return f"{least}{row['mail_waiting']} waiting{urgent}" if row["mail_waiting"] else ""


def panel(client: Client, record: Life) -> list[Section]:
    """Return the link to everything about an agent, and the end of its output."""
    loops, name = Loops(client), name_of(record.id)
    link = Sentence(Link(_of(name), f"{name}: its session, its mail, and a form to send it some"))
    if loops.latest_life(name) != record.id:
        said = Sentence("This record is an earlier life of the agent.", "soft")
        return [Section("Agent", (link, said))]
    return [Section("Agent", (link,)), _output(record, _notes(loops, record))]


def send(client: Client, fields: Mapping[str, str]) -> Link:
    """Send mail to an agent, under the name of who sends the form."""
    name = fields.get("agent", "")
    chosen = {each: fields[each] for each in ("kind", "thread", "reply_to") if fields.get(each)}
    text = fields.get("text", "").replace("\r\n", "\n")
    urgent = fields.get("urgent") == "yes"
    Loops(client).send(name, text, sender=client.actor, urgent=urgent, **chosen)
    return Link(_of(name))


def _of(name: str) -> dict[str, str]:
    return {"agent": name}


def _row(row: Row) -> tuple[object, ...]:
    return (
        Link(_of(row["name"]), row["name"]),
        StateName("loop", row["state"]),
        Time(row["since_ms"]),
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
        Section("Session", [session(value)]),
        _output(record, notes),
        Section("Mail to it", [mail(value["mail"])]),
        Section("Mail from it", (_mail_out(loops, notes),)),
    ]
    if value["state"] != State.STOPPED:
        form = Button("send", "Send", {"agent": name})
        sections.append(Section("Send mail", [form], is_live=False))
    if value["prompt"]:
        text = (Verbatim(value["prompt"]),)
        sections.append(Section("The prompt of its session", text, is_live=False))
    return sections


def session(value: Row) -> Mapping[str, object]:
    """Return what is known of an agent and of its session."""
    last, stopped = value.get("last") or {}, value.get("stopped") or {}
    copied = {
        "repository" if name == "repo" else name: Verbatim(str(value[name]))
        for name in ("command", "repo", "branch", "worktree")
        if value.get(name)
    }
    due = {f"timer {name}": Time(at_ms, "left") for name, at_ms in value["due"].items()}
    facts: dict[str, object] = {
        "record": Link(value["id"]),
        "state": StateName("loop", value["state"]),
        "since": Time(value["since_ms"]),
        "session": f"{value['session']}, attempt {value['attempt']}",
        **copied,
        "computer": str(value.get("host") or ""),
        "next session": str(value.get("next") or "").replace("_", " "),
        "process": str(value.get("pid") or ""),
        "errors": f"{value['errors']} in a row, {value['errors_in_all']} in all",
        "last session": f"{last.get('outcome', '')} {last.get('detail') or ''}".strip(),
        "stopped": f"{stopped['by']}: {stopped['reason']}" if stopped else "",
        **due,
    }
    return facts


def _output(record: Life, notes: Sequence[Note]) -> Section:
    """Return the end of the last session's output, and its last reports."""
    output = LivePart("output", record)
    parts: list[Part] = [output]
    rows = [
        (Time(note.at_ms), str(note.detail["message"])) for note in notes if note.kind == "progress"
    ]
    if rows:
        parts.append(Table(("Age", "It reported"), rows[:LINES_MAX]))
    return Section("Output", parts)


def _notes(loops: Loops, record: Life) -> list[Note]:
    """Return the notes among the last lines of a life's log, the newest first."""
    log = loops.records.views.latest([record.id], NOTES_READ)[record.id]
    return [line for line in log if isinstance(line, Note)]


def _mail_out(loops: Loops, notes: Sequence[Note]) -> Table:
    """Return what a life of an agent has sent, and what became of it, from its notes."""
    states = {"mail_sent": "sent", "mail_refused": "refused", "mail_lost": "lost"}
    shown = [note for note in notes if note.kind in states][:MAIL_MAX]
    sent = {_message_of(note) for note in shown if note.kind == "mail_sent"}
    found = loops.records.inboxes.some(sent)
    texts = {message: str(mail.fields["text"]) for message, mail in found.items()}
    rows = [
        (
            Time(note.at_ms),
            _addressee(note),
            states[note.kind],
            texts.get(_message_of(note)) or str(note.detail.get("reason", "")),
        )
        for note in shown
    ]
    return Table(("Age", "To", "State", "Text"), rows, "It has written to nobody.")


def _addressee(note: Note) -> object:
    """Return to whom mail went. Refused mail may name an agent that does not exist."""
    to = str(note.detail["to"])
    return Link(_of(to), to) if note.kind == "mail_sent" else to


def _message_of(note: Note) -> tuple[str, str]:
    """Return to whom a message went, and its id."""
    return str(note.detail["to"]), str(note.detail.get("mail", ""))


PAGE = SystemPage(
    title="Agents",
    question="What do the long-lived agents do?",
    machines=("loop",),
    view=view,
    panels={"loop": panel},
    acts={"send": PageAct("submit", send, SentMail)},
)
