"""Runs the inbox from producer to done, and prints each result: `python -m examples.demo`.

It starts a store, workers, intake and beat of its own below .interlock/demo, answers two cards by
itself, and prints what became of each request. At a terminal it then serves the console over all
that, until Ctrl-C; elsewhere it says how to start the console.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record
from interlock.kernel.table import Terminal
from interlock.systems.threads.requests import read_request, request_files
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.engine.card import card_of, no_registry
from interlock.workers.ops.deployment import Deployment
from interlock.workers.ops.home import new_home
from interlock.workers.ops.up import console_link, keep_alive
from interlock.workers.setting_values import as_variable
from interlock.workers.terminal import screen
from interlock.workers.terminal.command import guarded
from interlock.workers.terminal.page import StateName
from interlock.workers.text import one_line
from interlock.workers.up_file import telling

EXAMPLES = Path(__file__).absolute().parent.parent
PATIENCE_S = 120.0  # for all requests to come to rest
POLL_S = 0.1
ENDED = "\nended; no process is left"
NO_TERMINAL = (
    "No console is served now: what this program prints goes to no terminal, where Ctrl-C would"
    " end it. `up` serves it, after the three `export` above, and prints its address."
)


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """One card that the demonstration answers by itself, and the sentence that explains it."""

    record_id: str
    answers: Mapping[str, Mapping[str, Any]]  # by choice; the first that the card offers is used
    explanation: str


REAL_REQUEST = "Put 'give the thing back to Sam' on my todo list."
SCRIPT = (
    ScriptedAnswer(
        "06-free-some-space",
        {"approve": {}},
        "a command cannot be undone, so it waits for approval under every policy: approved",
    ),
    ScriptedAnswer(
        "08-the-thing",
        {"provide": {"text": REAL_REQUEST}, "redirect": {"feedback": REAL_REQUEST}},
        f"the request did not say what was meant, so it got other words: {REAL_REQUEST}",
    ),
)


@guarded
def main() -> None:
    """Run the example inbox on a store of its own, answer two cards, and print the results."""
    named = read_settings()
    home = new_home(named.home / "demo")
    desk, inbox = home / "desk", home / "inbox"
    shutil.copytree(EXAMPLES / "inbox", inbox)
    shutil.copytree(EXAMPLES / "papers", desk / "tray")
    os.environ["EXAMPLE_DESK"] = str(desk)
    # The folder that the modules of systems are in, if there are any, else that of the examples.
    modules = named.capabilities_root.absolute() if named.systems else EXAMPLES.parent
    environment = {
        "INTERLOCK_HOME": str(home),
        "INTERLOCK_CAPABILITIES": str(EXAMPLES / "capabilities.toml"),
        "INTERLOCK_CAPABILITIES_ROOT": str(modules),
        "INTERLOCK_SOURCES_ROOT": str(inbox),
    }
    settings = read_settings(
        {
            **environment,
            "INTERLOCK_CARDS": str(home / "cards"),
            "INTERLOCK_SYSTEMS": as_variable(named.systems),
        }
    )
    screen.out.rule(
        "[bold]Interlock[/]: an inbox of requests, from their submission to their results"
    )
    started = time.monotonic()
    try:
        with Deployment(settings, pages=False) as deployment:
            up_s = time.monotonic() - started
            screen.out.print(
                f"store, worker, intake and beat are up after {up_s:.1f} s", style="dim"
            )
            ids, records, answered = play(Client(deployment.settings, actor="demo"), inbox)
            print_results(records, ids, answered, desk, home, time.monotonic() - started)
            if sys.stdout.isatty():
                show_in_console(deployment)
            else:
                screen.out.print(NO_TERMINAL)
        screen.out.print(ENDED, style="dim")
    except KeyboardInterrupt:
        screen.out.print(ENDED, style="dim")
        raise SystemExit(128 + signal.SIGINT) from None


def show_in_console(deployment: Deployment) -> None:
    """Serve the console over the store of the demonstration until Ctrl-C.

    Where what it needs is not installed, say so.
    """
    if not (address := deployment.serve()):
        for notice in deployment.revive():
            screen.notice(notice)
        return
    with telling(deployment.settings, deployment.home, address), suppress(KeyboardInterrupt):
        screen.out.print("Look at all this in the console, and answer there, until Ctrl-C:")
        link = console_link(deployment)
        screen.out.print(f"  {link}", style="bold cyan", highlight=False, soft_wrap=True)
        keep_alive(deployment)


def play(client: Client, inbox: Path) -> tuple[list[str], list[Record], list[ScriptedAnswer]]:
    """Submit everything, answer the two cards, and wait until each record ends or asks a person."""
    host = client.settings.host
    requests = [read_request(path, host=host) for path in request_files(inbox)]
    payloads = [{k: v for k, v in request.items() if v is not None} for request in requests]
    submitted = client.submit_many(payloads, machine="thread")
    ids = [result.id for result in submitted if result.error is None]
    for refused in (result for result in submitted if result.error):
        screen.error(f"{refused.id}: {refused.error}")
    unanswered = list(SCRIPT)
    answered: list[ScriptedAnswer] = []
    until = time.monotonic() + PATIENCE_S
    with Live(console=screen.out, refresh_per_second=10) as live:
        while True:
            family = [
                *ids,
                *(child for parent in ids for child in client.dispatch.views.children(parent)),
            ]
            records = [client.show(record_id) for record_id in family]
            live.update(board(records, answered))
            for item in [scripted for scripted in unanswered if answer_card(client, scripted)]:
                unanswered.remove(item)
                answered.append(item)
            if all(is_at_rest(client, record) for record in records) and not unanswered:
                break
            if time.monotonic() > until:
                break
            time.sleep(POLL_S)
    screen.out.print()
    return ids, records, answered


def answer_card(client: Client, scripted: ScriptedAnswer) -> bool:
    """Answer the card if it is open. Return whether it was."""
    card = client.card(scripted.record_id)
    offered = {choice.name for choice in card.affordances} if card else set()
    choice = next((name for name in scripted.answers if name in offered), None)
    if card is None or choice is None:
        return False
    client.decide(scripted.record_id, choice, scripted.answers[choice], proposal=card.proposal)
    return True


def is_at_rest(client: Client, record: Record) -> bool:
    """Return whether a record has ended, or needs a person before it goes on."""
    stage = client.dispatch.lifecycle.machine(record.machine).stage(record.state)
    at_rest = (
        isinstance(stage, Terminal)
        or stage.waits_for_person(record.data)
        or record.state == "monitoring"
    )
    return at_rest and not any(entry.state in ("owed", "leased") for entry in record.entries)


def board(records: Sequence[Record], answered: Sequence[ScriptedAnswer]) -> Table:
    """Return the table of all records and of the cards that were answered."""
    table = screen.grid("thread", "state", "about")
    for record in records:
        title = (record.data.get("inciting") or {}).get("title", "")
        table.add_row(
            record.id,
            StateName(record.machine, record.state).as_text(),
            one_line(title, length_max=60),
        )
    for scripted in answered:
        table.add_row("", Text("answered by the demo", style="bold cyan"), scripted.record_id)
    return table


def print_results(
    records: Sequence[Record],
    ids: Sequence[str],
    answered: Sequence[ScriptedAnswer],
    desk: Path,
    home: Path,
    took_s: float,
) -> None:
    """Print the result of each thread, the files that were written, and commands to try next."""
    screen.out.rule("the result of each request")
    for record in records:
        state = StateName(record.machine, record.state).as_text()
        screen.out.print(Text.assemble((record.id, "bold"), "  ", state))
        screen.out.print(Text(f"    {one_line(outcome(record), length_max=140)}", style="dim"))
    screen.out.rule("cards that the demonstration answered by itself")
    for scripted in answered:
        screen.out.print(Text.assemble((f"{scripted.record_id}: ", "bold"), scripted.explanation))
    for scripted in (missing for missing in SCRIPT if missing not in answered):
        screen.error(f"{scripted.record_id} did not ask for {' or '.join(scripted.answers)}")
    screen.out.rule("the files that were written")
    for path in sorted(new_files(desk)):
        lines = path.read_text("utf-8", "replace").splitlines()
        last = next((text for text in reversed(lines) if text.strip()), "")
        screen.out.print(
            Text.assemble(
                (str(path.relative_to(home)), "bold"),
                f"  {len(lines)} lines  ",
                (one_line(last, length_max=70), "dim"),
            )
        )
    waiting = sum(record.state.startswith("awaiting_") for record in records)
    program = screen.program()
    screen.out.rule("commands to try next")
    screen.out.print(
        f"{len(ids)} requests in {took_s:.0f} s; {waiting} threads wait for you; the store"
        " is kept in a folder of its own, which these variables name:"
    )
    for command in (
        f"export INTERLOCK_HOME={shlex.quote(str(home))} EXAMPLE_DESK={shlex.quote(str(desk))}",
        f"export INTERLOCK_CAPABILITIES={shlex.quote(str(EXAMPLES / 'capabilities.toml'))}",
        f"export INTERLOCK_CAPABILITIES_ROOT={shlex.quote(str(EXAMPLES.parent))}",
        f"{program} up            # once this has ended: the same store again, with its console",
        f"{program} cards         # in another terminal: what you are asked",
        f"{program} decide 01-printer-paper approve     # asks you, at a terminal",
        f"{program} history 01-printer-paper",
        f"{program} verify        # recompute every record from its log",
    ):
        screen.out.print(f"  {command}", style="cyan", highlight=False, soft_wrap=True)


def new_files(desk: Path) -> list[Path]:
    """Return the files that the threads wrote: all but those that were there before."""
    papers = {desk / "tray" / paper.name for paper in (EXAMPLES / "papers").iterdir()}
    files = (path for path in desk.rglob("*") if path.is_file() and path.name[0] != ".")
    return [path for path in files if path not in papers]


def outcome(record: Record) -> str:
    """Return the result of a record, or its question, in one line."""
    data = record.data
    card = card_of(MACHINES[record.machine], record, no_registry)
    if card is not None:
        return f"asks: {card.question}"
    if data.get("result") is not None:
        capability = data["proposals"]["action"]["payload"]["capability"]
        return f"{capability}: {one_line(data['result'], length_max=100)}"
    if data.get("tally"):
        return f"its parts ended: {one_line(data['tally'], length_max=100)}"
    return str(data.get("reason", ""))


if __name__ == "__main__":
    typer.run(main)
