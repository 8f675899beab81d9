"""The commands `interlock rejected`: look at rejected messages, and do what they ask for again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.kernel.errors import CallError
from interlock.kernel.store.rejected import RejectedMessage
from interlock.workers.client import Client
from interlock.workers.producer_message import one_line
from interlock.workers.producer_message import replay as replay_message
from interlock.workers.terminal.command import Shell, guarded
from interlock.workers.terminal.page import Link, Part, Sentence, Table, Time
from interlock.workers.terminal.page_parts import fields

if TYPE_CHECKING:  # imported where it is opened
    from interlock.workers.remote.client import HttpClient

app = typer.Typer(help="Messages that nobody could act on: look at them, and try them again.")
Ids = Annotated[list[str] | None, typer.Argument(help="Ids of messages.", metavar="ID")]
All = Annotated[bool, typer.Option("--all", help="Every message that is kept.")]
LISTED_MAX = 10_000

NONE = "no message was rejected"


@app.command("list")
@guarded
def list_rejected(
    shell: Shell,
    limit: Annotated[int, typer.Option(min=1, max=LISTED_MAX, help="The most to show.")] = 100,
) -> None:
    """List the rejected messages that are kept, the newest first."""
    found = shell.first(_newest(shell.caller(), limit + 1), limit, "the newest first")
    shell.answer(list(map(shown, found)), show=_table)


@app.command("show")
@guarded
def show(
    shell: Shell,
    message_id: Annotated[str, typer.Argument(help="The id of a message.", metavar="ID")],
) -> None:
    """Show a rejected message whole."""
    shell.answer(shown(_message(shell.caller(), message_id)), show=_whole)


@app.command("replay")
@guarded
def replay(shell: Shell, ids: Ids = None, everything: All = False) -> None:
    """Do again what messages asked for, the oldest first. One that is accepted is dropped."""
    interlock = shell.caller("intake")
    done = [_replayed(interlock, message) for message in _chosen(interlock, ids, everything)]
    shell.answer(done, show=_answers)
    if any(each["answer"] == "rejected" for each in done):
        raise typer.Exit(1)


@app.command("drop")
@guarded
def drop(shell: Shell, ids: Ids = None, everything: All = False) -> None:
    """Drop messages for good. Their producers are not notified."""
    interlock = shell.caller()
    chosen = _chosen(interlock, ids, everything)
    for message in chosen:
        if isinstance(interlock, Client):
            interlock.dispatch.rejected.drop(message.id)
        else:
            interlock.drop(message.id)
    done = [{"id": message.id, "answer": "dropped"} for message in chosen]
    shell.answer(done, show=_answers)


def shown(message: RejectedMessage) -> dict[str, Any]:
    """Return a message as commands show it. `verb` is what it asked for, if it can be replayed."""
    return {"at_ms": message.at_ms, **asdict(message)}


def _chosen(
    interlock: Client | HttpClient,
    ids: Sequence[str] | None,
    everything: bool,  # noqa: FBT001 - an option
) -> list[RejectedMessage]:
    if bool(ids) == everything:
        raise CallError("name messages by their ids, or give --all")
    if everything:
        return _newest(interlock, LISTED_MAX)[::-1]
    return [_message(interlock, one) for one in ids or ()]


def _newest(interlock: Client | HttpClient, limit: int) -> list[RejectedMessage]:
    if isinstance(interlock, Client):
        return interlock.dispatch.rejected.newest(limit)
    return interlock.rejected(limit=limit)


def _message(interlock: Client | HttpClient, message_id: str) -> RejectedMessage:
    if isinstance(interlock, Client):
        return interlock.dispatch.rejected.message(message_id)
    return interlock.rejected_message(message_id)


def _replayed(interlock: Client | HttpClient, message: RejectedMessage) -> dict[str, Any]:
    if isinstance(interlock, Client):
        return replay_message(interlock, message)
    return interlock.replay(message.id)


def _table(found: Sequence[dict[str, Any]]) -> list[Table]:
    rows = [
        (each["id"], Time(each["at_ms"]), each["kind"], each["verb"], each["reason"])
        for each in found
    ]
    return [Table(("Id", "When", "Rejected", "Asked for", "Why"), rows, NONE)]


def _whole(message: dict[str, Any]) -> list[Part]:
    facts = fields({name: message[name] for name in ("id", "kind", "verb", "reason")})
    return [*facts, Sentence(message["body"])]


def _answers(done: Sequence[dict[str, Any]]) -> list[Part]:
    if not done:
        return [Sentence(NONE, "soft")]
    return [Sentence((Link(each.pop("id")), f"  {one_line(each)}")) for each in map(dict, done)]
