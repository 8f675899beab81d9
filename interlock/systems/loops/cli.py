"""The commands `interlock agent start ...` for long-lived agents, each one call of the client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock import guarded
from interlock.system.commands import Reason, Shell, Tagged
from interlock.system.pages import Part, Section
from interlock.systems.loops import page
from interlock.systems.loops.client import LIVES_MAX, Loops
from interlock.systems.loops.machines.loop.payloads import Next, ResetOn
from interlock.systems.loops.mailbox import LISTED, OPERATOR, UnknownAgentError

if TYPE_CHECKING:  # imported where it is opened
    from interlock import Client, HttpClient

app = typer.Typer()

Name = Annotated[str, typer.Argument(help="An agent's name.", metavar="NAME")]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for its process.")]
PANELS = {
    "Who it is": "repo command identity instructions",
    "When a session starts": "on_mail every",
    "Limits": "session_timeout grace max_consecutive_errors max_total_errors reset_on"
    " min_runtime park",
}
Text = Annotated[list[str], typer.Argument(help="The text of the message.", metavar="TEXT")]


@app.command()
@guarded(actor="person", panels=PANELS)
def start(
    shell: Shell,
    name: Name,
    repo: Annotated[Path, typer.Option(help="A git repository; the agent gets a worktree of it.")],
    command: Annotated[
        str, typer.Option(help="The command of one session; it reads its prompt from stdin.")
    ],
    identity: Annotated[str, typer.Option(help="Who the agent is; begins every prompt.")] = "",
    instructions: Annotated[
        Path | None, typer.Option(help="A file with instructions for every prompt.")
    ] = None,
    on_mail: Annotated[bool, typer.Option(help="Start a session only when mail has come.")] = False,
    every: Annotated[int | None, typer.Option(min=1, help="Seconds between two sessions.")] = None,
    session_timeout: Annotated[
        int | None, typer.Option(help="Seconds that a session may take.")
    ] = None,
    grace: Annotated[int, typer.Option(help="Seconds to end after an interrupt.")] = 30,
    max_consecutive_errors: Annotated[
        int, typer.Option(help="Stop after so many errors in a row.")
    ] = 5,
    max_total_errors: Annotated[int, typer.Option(help="Stop after so many errors in all.")] = 20,
    reset_on: Annotated[
        ResetOn, typer.Option(help="The event that ends a row of errors.")
    ] = ResetOn.SESSION_STARTED,
    min_runtime: Annotated[int, typer.Option(help="Seconds, for --reset-on min_runtime.")] = 60,
    park: Annotated[
        bool, typer.Option("--park", help="A provider's rate limit is a pause, not an error.")
    ] = False,
    tag: Tagged = None,
) -> None:
    """Start a long-lived agent: session after session, in a worktree of its own, with mail."""
    if on_mail and every is not None:
        shell.fail("give --on-mail or --every, not both")
    following = Next.ON_MAIL if on_mail else Next.AT_ONCE if every is None else Next.LATER
    options: dict[str, Any] = {
        "identity": identity,
        "next": following.value,
        "grace_s": grace,
        "max_consecutive_errors": max_consecutive_errors,
        "max_total_errors": max_total_errors,
        "reset_on": reset_on.value,
        "min_runtime_s": min_runtime,
        "parks": park,
    }
    options |= {"tags": tag} if tag else {}
    options |= {} if every is None else {"every_s": every}
    options |= {} if session_timeout is None else {"session_timeout_s": session_timeout}
    if instructions is not None:
        try:
            options["instructions"] = instructions.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as refusal:
            shell.fail(f"{instructions} cannot be read: {refusal}")
    record = Loops(shell.client()).start(name, repo=repo, command=command, **options)
    shell.answer_record(record, id=name)


@app.command()
@guarded(actor="person")
def stop(
    shell: Shell,
    name: Name,
    reason: Reason = "",
    fatal: Annotated[
        bool, typer.Option("--fatal", help="Stop it because of an error; needs --reason.")
    ] = False,
    wait: Wait = 60,
) -> None:
    """Stop an agent and wait until its process and worktree are gone."""
    loops = Loops(shell.client())
    if fatal and not reason:
        shell.fail("say why with --reason")
    if fatal:
        record = loops.fail(name, reason, wait_s=wait)
    else:
        record = loops.stop(name, reason=reason, wait_s=wait)
    left = [entry.name for entry in record.entries]
    shell.answer_record(record, id=name, left=left)
    if left and shell.as_json:
        raise typer.Exit(1)
    if left:
        host = record.data.get("host") or "no computer"
        waits = f"{name} has not left {host} after {wait:g} s; still owed there: {', '.join(left)}"
        shell.fail(waits, kind="")


@app.command()
@guarded(actor=OPERATOR)
def send(
    shell: Shell,
    name: Name,
    text: Text,
    urgent: Annotated[bool, typer.Option("--urgent", help="Interrupt its session.")] = False,
    kind: Annotated[str, typer.Option(help="message, task, status or nudge.")] = "message",
    thread: Annotated[str, typer.Option(help="The thread that the message belongs to.")] = "",
    reply_to: Annotated[str, typer.Option(help="The id of the message that it answers.")] = "",
) -> None:
    """Send mail to an agent, for its next session. Urgent mail interrupts a running session."""
    fields = {"kind": kind, "urgent": urgent, "thread": thread, "reply_to": reply_to}
    written = " ".join(text)
    if api := shell.api():
        sent = str(api.send("send", {"to": name, "text": written, **fields})["mail"])
    else:
        # An agent may have the name of a part of Interlock, and write under it.
        sent = Loops(shell.client("person")).send(name, written, sender=shell.actor, **fields)
    shell.answer({"id": sent, "answer": "sent"})


@app.command(name="list")
@guarded
def list_agents(shell: Shell) -> None:
    """List the long-lived agents: state, session and mail of each."""
    loops = Loops(shell.client())
    now_ms = loops.records.now_ms()
    shell.answer(loops.list(), show=lambda rows: [page.agents(rows)], now_ms=now_ms)


@app.command()
@guarded
def show(shell: Shell, name: Name) -> None:
    """Show an agent: its state, session, errors, mail, and what is due when."""
    loops = Loops(shell.client())
    now_ms = loops.records.now_ms()
    shell.answer(loops.show(name), show=_everything, now_ms=now_ms)


def _everything(value: Mapping[str, Any]) -> Iterable[Part]:
    # The newest mail is the last, beside the prompt of the shell.
    letters = Section("Mail to it", [page.mail(value["mail"][::-1])])
    return [Section(value["name"], [page.session(value)]), letters]


@app.command()
@guarded
def mail(
    shell: Shell,
    name: Name,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="List at most so many.")] = 50,
) -> None:
    """List an agent's newest mail, each with when it was delivered."""
    loops = Loops(shell.client())
    loops.latest_life(name)  # refuse an unknown name, which would look like an empty mailbox
    rows = shell.first(loops.mailbox.newest(name, limit + 1), limit, "the newest first")
    now_ms = loops.records.now_ms()
    shell.answer(rows, show=lambda rows: [page.mail(rows[::-1])], now_ms=now_ms)


@app.command()
@guarded(has_json=False)
def logs(shell: Shell, name: Name) -> None:
    """Print the output of an agent's last session, or its end if it is on another computer."""
    reader, latest = _reader(shell, name)
    found = reader.logs(latest())
    shell.print(found.output)
    shell.print(found.note, err=True)


@app.command()
@guarded(has_json=False)
def tail(shell: Shell, name: Name) -> None:
    """Print what an agent's sessions print from now on, until it has stopped or asks a person."""
    reader, latest = _reader(shell, name)
    for text in reader.tail(latest(), newest=latest):
        shell.print(text)


def _reader(shell: Shell, name: str) -> tuple[Client | HttpClient, Callable[[], str]]:
    """Return the client that reads an agent's output, and what finds its latest life."""
    if api := shell.api():
        return api, partial(_latest_life, api, name)
    loops = Loops(shell.client())
    return loops.client, partial(loops.latest_life, name)


def _latest_life(api: HttpClient, name: str) -> str:
    """Return the latest life of a name over HTTP. Raises UnknownAgentError."""
    lives = api.list(machine="loop", id_prefix=f"{name}/", limit=LIVES_MAX)
    if not lives:
        raise UnknownAgentError(f"the agent {name!r} was never started; {LISTED}")
    return max((life.id for life in lives), key=lambda life: int(life.rpartition("/")[2]))
