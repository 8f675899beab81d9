"""The demonstration, and `up`: a whole Interlock on this machine, while somebody watches."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table
from rich.text import Text

from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record
from interlock.kernel.table import Terminal
from interlock.workers.client import Client
from interlock.workers.config import UP_FILE, Settings, SettingsError, read_settings
from interlock.workers.engine.card import card_of
from interlock.workers.ops.deployment import Deployment, DeploymentError
from interlock.workers.terminal import screen
from interlock.workers.threads.requests import read_request, request_files

EXAMPLES = Path(__file__).absolute().parents[3] / "examples"
PATIENCE_S = 45.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """One card that the demonstration answers itself, and what it says."""

    record_id: str
    answers: Mapping[str, Mapping[str, Any]]  # by choice; the first that the card offers is given
    said: str


MEANT = "Put 'give the thing back to Sam' on my todo list."
SCRIPT = (
    ScriptedAnswer(
        "06-free-some-space",
        {"approve": {}},
        "a command cannot be taken back, so it waits for consent whatever the policy: approved",
    ),
    ScriptedAnswer(
        "08-the-thing",
        {"provide": {"text": MEANT}, "redirect": {"feedback": MEANT}},
        f"nobody could know what was meant, so it was said in other words: {MEANT}",
    ),
)


def keep_up(settings: Settings, *, say: Callable[[Mapping[str, str]], None]) -> None:
    """Start everything, say where it is, and stay until Ctrl-C or SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    place = settings.home.absolute() / UP_FILE
    said = ""
    try:
        with Deployment(settings, flower=True, jobs=True) as deployment:
            kept = {"store_url": deployment.settings.store_url}
            if settings.capabilities:
                kept["capabilities"] = settings.capabilities
            said = json.dumps(kept) + "\n"
            place.write_text(said, "utf-8")
            logs = str(deployment.log("worker").parent)
            say(
                {
                    "store": deployment.settings.store_url,
                    "flower": deployment.flower_url,
                    "logs": logs,
                }
            )
            while (name := deployment.dead()) is None:
                time.sleep(0.5)
            raise DeploymentError(f"{name} has ended; read {deployment.log(name)}")
    except KeyboardInterrupt:
        screen.err.print("ended", style="dim")
    finally:
        # Another one may be up here by now, or have been all the time.
        if said and place.exists() and place.read_text("utf-8") == said:
            place.unlink()


def run() -> None:
    """Run the example inbox on a store of its own, answer two cards, and tell what became of it."""
    if not EXAMPLES.exists():
        raise SettingsError("the examples are not here: run the demonstration from a checkout")
    home = (read_settings().home / "demo").absolute()
    shutil.rmtree(home, ignore_errors=True)
    desk, inbox = home / "desk", home / "inbox"
    shutil.copytree(EXAMPLES / "inbox", inbox)
    shutil.copytree(EXAMPLES / "papers", desk / "tray")
    os.environ["EXAMPLE_DESK"] = str(desk)
    environment = {
        "INTERLOCK_HOME": str(home),
        "INTERLOCK_CAPABILITIES": str(EXAMPLES / "capabilities.toml"),
        "INTERLOCK_SOURCES_ROOT": str(inbox),
    }
    settings = read_settings({**environment, "INTERLOCK_CARDS": str(home / "cards")})
    screen.out.rule("[bold]Interlock[/]: an inbox, from what came in to what was done")
    started = time.monotonic()
    try:
        with Deployment(settings, flower=False) as deployment:
            up_s = time.monotonic() - started
            screen.out.print(
                f"store, worker, intake and beat are up after {up_s:.1f} s", style="dim"
            )
            ids, records, answered = play(Client(deployment.settings, actor="demo"), inbox)
            tell(records, ids, answered, desk, home, time.monotonic() - started)
    except KeyboardInterrupt:
        screen.out.print("\nended; no process is left", style="dim")


def play(client: Client, inbox: Path) -> tuple[list[str], list[Record], list[ScriptedAnswer]]:
    """Submit everything, answer the two cards, and watch until nothing moves by itself."""
    requests = [read_request(path) for path in request_files(inbox)]
    payloads = [{k: v for k, v in request.items() if v is not None} for request in requests]
    done = client.submit_many(payloads, machine="thread")
    ids = [one.id for one in done if one.error is None]
    for refused in (one for one in done if one.error):
        screen.error(f"{refused.id}: {refused.error}")
    open_lines = list(SCRIPT)
    answered: list[ScriptedAnswer] = []
    until = time.monotonic() + PATIENCE_S
    with Live(console=screen.out, refresh_per_second=10) as live:
        while True:
            family = [
                *ids,
                *(child for one in ids for child in client.dispatch.views.children(one)),
            ]
            records = [client.show(one) for one in family]
            live.update(board(records, answered))
            for line in [one for one in open_lines if speak(client, one)]:
                open_lines.remove(line)
                answered.append(line)
            if all(rests(client, record) for record in records) and not open_lines:
                break
            if time.monotonic() > until:
                break
            time.sleep(POLL_S)
    screen.out.print()
    return ids, records, answered


def speak(client: Client, line: ScriptedAnswer) -> bool:
    """Give a line of the script as soon as its card is on the table; whether it was."""
    card = client.card(line.record_id)
    offered = {one.name for one in card.affordances} if card else set()
    choice = next((one for one in line.answers if one in offered), None)
    if card is None or choice is None:
        return False
    client.decide(line.record_id, choice, line.answers[choice], proposal=card.proposal)
    return True


def rests(client: Client, record: Record) -> bool:
    """Whether a record goes nowhere without a person: it has ended, or asks, or waits for such."""
    stage = client.dispatch.lifecycle.machine(record.machine).stage(record.state)
    resting = (
        isinstance(stage, Terminal)
        or stage.waits_for_person(record.data)
        or record.state == "monitoring"
    )
    return resting and not any(entry.state in ("owed", "leased") for entry in record.entries)


def board(records: Sequence[Record], answered: Sequence[ScriptedAnswer]) -> Table:
    """Return the live picture."""
    table = screen.grid("thread", "state", "about")
    for record in records:
        about = (record.data.get("inciting") or {}).get("title", "")
        table.add_row(record.id, screen.state_text(record.state), screen.short(about, 60))
    for line in answered:
        table.add_row("", Text("answered on stage", style="bold cyan"), line.record_id)
    return table


def tell(
    records: Sequence[Record],
    ids: Sequence[str],
    answered: Sequence[ScriptedAnswer],
    desk: Path,
    home: Path,
    took_s: float,
) -> None:
    """Print what became of each thread, what was written where, and what to try next."""
    screen.out.rule("what became of each")
    for record in records:
        screen.out.print(Text.assemble((record.id, "bold"), "  ", screen.state_text(record.state)))
        screen.out.print(Text(f"    {screen.short(outcome(record), 140)}", style="dim"))
    screen.out.rule("answered on stage, by the demonstration itself")
    for line in answered:
        screen.out.print(Text.assemble((f"{line.record_id}: ", "bold"), line.said))
    for line in (one for one in SCRIPT if one not in answered):
        screen.error(f"{line.record_id} never asked for {' or '.join(line.answers)}")
    screen.out.rule("what was written")
    for path in sorted(written(desk)):
        lines = path.read_text("utf-8", "replace").splitlines()
        last = next((one for one in reversed(lines) if one.strip()), "")
        screen.out.print(
            Text.assemble(
                (str(path.relative_to(home)), "bold"),
                f"  {len(lines)} lines  ",
                (screen.short(last, 70), "dim"),
            )
        )
    waiting = sum(record.state.startswith("awaiting_") for record in records)
    screen.out.rule("what to try next")
    shown = os.path.relpath(home)
    screen.out.print(
        f"{len(ids)} requests in {took_s:.0f} s; {waiting} threads wait for you; the store is kept:"
    )
    for command in (
        f"export INTERLOCK_HOME={shown} EXAMPLE_DESK={shown}/desk",
        "export INTERLOCK_CAPABILITIES=examples/capabilities.toml",
        ".venv/bin/interlock up            # in one terminal, with Flower",
        ".venv/bin/interlock cards         # in another: what you are asked",
        ".venv/bin/interlock decide 01-printer-paper approve     # asks you, at a terminal",
        ".venv/bin/interlock history 01-printer-paper",
        ".venv/bin/interlock verify        # recompute every record from its log",
    ):
        screen.out.print(f"  {command}", style="cyan", highlight=False, soft_wrap=True)


def written(desk: Path) -> list[Path]:
    """Return the files that were not there at first: the tray's papers were."""
    laid_out = {desk / "tray" / paper.name for paper in (EXAMPLES / "papers").iterdir()}
    files = (path for path in desk.rglob("*") if path.is_file() and path.name[0] != ".")
    return [path for path in files if path not in laid_out]


def outcome(record: Record) -> str:
    """Return in one line what became of a record, or what it asks."""
    data = record.data
    card = card_of(MACHINES[record.machine], record)
    if card is not None:
        return f"asks: {card.question}"
    if data.get("result") is not None:
        done = data["proposals"]["action"]["payload"]["capability"]
        return f"{done}: {screen.short(data['result'])}"
    if data.get("tally"):
        return f"its parts ended: {screen.short(data['tally'])}"
    return str(data.get("reason", ""))
