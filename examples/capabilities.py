"""Capabilities for first experiments; they write real files, in one folder, the desk.

EXAMPLE_DESK names the folder (default: `desk` in INTERLOCK_HOME). Each capability shows one thing
that you need for your own: how a repeated call changes nothing, which action a person has to
approve, how to fail.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated

from icalendar import Calendar, Event
from pydantic import Field

from examples import phrases
from interlock import CapabilityError, Failed, Level, Steps, Succeeded, capability
from interlock.workers.files.atomic import locked, replace_bytes
from interlock.workers.processes.process_group import run_command as run_program

PAPERS = Path(__file__).parent / "papers"

Title = Annotated[str, Field(min_length=1, max_length=200, json_schema_extra={"x-from": "title"})]
Matter = Annotated[
    str, Field(min_length=1, max_length=20_000, json_schema_extra={"x-from": "matter"})
]
Details = Annotated[
    str,
    Field(
        description="What else was said about it.",
        max_length=20_000,
        json_schema_extra={"x-from": "details"},
    ),
]


@capability(
    idempotent=True,
    irreversibility=Level.LOW,
    deadline_s=10,
    examples=phrases.NOTES,
)
def append_note(
    *,
    text: Annotated[Matter, Field(description="What to write down.")],
    key: str,
    steps: Steps,
) -> dict[str, str]:
    """Write something down in the notes, to remember it: facts, ideas, minutes, decisions."""
    notes = desk() / "notes.md"
    mark = f"<!-- {_mark(key)} -->"
    with locked(notes):
        before = notes.read_text(encoding="utf-8") if notes.exists() else "# Notes\n"
        # The note and its mark are written in one step, so a repeated call finds the mark.
        if mark not in before:
            body = text.strip().replace("\n", "\n  ")
            replace_bytes(notes, f"{before}\n- {body} {mark}\n".encode())
    steps.add("note", text)
    return {"file": notes.name}


@capability(
    idempotent=True,
    irreversibility=Level.LOW,
    deadline_s=10,
    examples=phrases.TASKS,
)
def add_task(
    *,
    title: Annotated[Title, Field(description="What is to be done, in one line.")],
    due: Annotated[
        date | None,
        Field(description="The day it is due.", json_schema_extra={"x-from": "date"}),
    ] = None,
    details: Details = "",
    key: str,
    steps: Steps,
) -> dict[str, str]:
    """Put something that has to be done on the to-do list: a task, an errand, a reminder."""
    tasks = desk() / "todo.txt"
    tag = f"key:{_mark(key)}"
    due_on = [f"due:{due.isoformat()}"] if due else []
    more = [f"({' '.join(details.split())})"] if details else []
    line = " ".join([*title.split(), *more, *due_on, tag])
    with locked(tasks):
        before = tasks.read_text(encoding="utf-8") if tasks.exists() else ""
        if tag not in before.split():
            replace_bytes(tasks, f"{before}{line}\n".encode())
    steps.add("task", line)
    return {"file": tasks.name, "line": line}


@capability(
    idempotent=True,
    irreversibility=Level.LOW,
    regret_potential=Level.MEDIUM,
    deadline_s=10,
    examples=phrases.APPOINTMENTS,
)
def add_appointment(
    *,
    title: Annotated[Title, Field(description="What the appointment is, in a few words.")],
    start: Annotated[
        datetime,
        Field(description="When it starts.", json_schema_extra={"x-from": "datetime"}),
    ],
    duration_min: Annotated[
        int,
        Field(
            description="How long, in minutes.",
            ge=1,
            le=1440,
            json_schema_extra={"x-from": "duration"},
        ),
    ] = 60,
    details: Details = "",
    key: str,
    steps: Steps,
) -> dict[str, str]:
    """Put an appointment with a date and a time on the calendar: a meeting, a visit, a call."""
    file = desk() / "calendar.ics"
    uid = f"{_mark(key)}@interlock.example"
    with locked(file):
        calendar = _calendar(file)
        if all(str(event.get("uid")) != uid for event in calendar.walk("VEVENT")):
            event = Event()
            event.add("uid", uid)
            event.add("summary", title)
            event.add("dtstamp", datetime.now(UTC))
            # A time without an offset stays as it is: half past ten, wherever the reader is.
            begin = start.astimezone(UTC) if start.tzinfo else start
            event.add("dtstart", begin)
            event.add("dtend", begin + timedelta(minutes=duration_min))
            if details:
                event.add("description", details)
            calendar.add_component(event)
            replace_bytes(file, calendar.to_ical())
    steps.add("appointment", f"{title}, {start.isoformat()}, {duration_min} minutes")
    return {"file": file.name, "uid": uid, "start": start.isoformat()}


@capability(
    idempotent=True,
    irreversibility=Level.LOW,
    deadline_s=10,
    examples=(
        "File tray/invoice-2041.txt under invoices",
        "File the letter away in the archive",
        "Put the signed contract away",
        "Archive the scan that lies in the tray",
        "Store the attached papers in the archive",
        "Tidy the report away",
        "The receipt can go to the archive",
        "The letter is to be archived",
        "The statement can be filed under bank",
        "For filing",
    ),
)
def file_document(
    *,
    path: Annotated[
        str,
        Field(
            description="The document, as a path on the desk, like tray/letter.txt.",
            min_length=1,
            max_length=400,
            json_schema_extra={"x-from": "path"},
        ),
    ],
    folder: Annotated[
        str,
        Field(
            description="The archive's folder.",
            pattern=r"^[A-Za-z0-9][A-Za-z0-9 _-]{0,60}$",
            json_schema_extra={
                "x-from": "phrase",
                "x-phrases": phrases.FOLDERS,
            },
        ),
    ] = "filed",
    key: str,
    steps: Steps,
) -> dict[str, str]:
    """File a document away: move a letter, an invoice or a scan from the tray to the archive."""
    root = desk()
    source = _on_desk(root, path)
    shelf = root / "archive" / folder
    # The name has the mark of the call if another document has the plain name.
    plain = shelf / source.name
    marked = shelf / f"{source.stem}.{_mark(key)}{source.suffix}"
    with locked(root / "archive"):
        if source.is_file():
            shelf.mkdir(parents=True, exist_ok=True)
            target = marked if plain.exists() else plain
            source.replace(target)
        elif marked.exists() or plain.exists():
            target = marked if marked.exists() else plain
        else:
            raise CapabilityError(f"there is no document {path!r} on the desk")
    steps.add("filed", f"{path} in {target.relative_to(root)}")
    return {"file": str(target.relative_to(root))}


@capability(
    idempotent=False,
    irreversibility=Level.HIGH,
    deadline_s=60,
    risk_amplifier=True,
    examples=(
        "Run `rm -rf build` to free some space",
        "Execute the command `ls -la`",
        "Start the shell script backup.sh",
    ),
)
async def run_command(
    *,
    command: Annotated[
        str,
        Field(
            description="One line for bash, run in the desk's folder.",
            min_length=1,
            max_length=4000,
            json_schema_extra={"x-from": "command"},
        ),
    ],
    steps: Steps,
) -> Succeeded | Failed:
    """Run a command in the shell. What it does cannot be taken back, so a person must agree."""
    finished = await run_program(["bash", "-c", command], folder=desk())
    steps.add("command", command)
    steps.add("output", finished.output)
    if finished.errors:
        steps.add("errors", finished.errors)
    if finished.exit_code != 0:
        reason = finished.errors.strip().rpartition("\n")[2] or "it printed no error"
        why = f"the command ended with exit code {finished.exit_code}: {reason}"
        return Failed("exit", why, exit_code=finished.exit_code)
    value = {"exit_code": 0, "output": finished.output, "errors": finished.errors}
    return Succeeded(value, truncated=finished.truncated)


@capability(
    idempotent=True,
    irreversibility=Level.LOW,
    deadline_s=10,
    examples=(
        "Print a visitor badge for Mr Okafor",
        "Print a name tag that says Reception",
        "Make a badge for a guest",
        "Badge for the guest",
        "Prepare a visitor badge",
        "I need a badge for the visitor",
        "A badge is needed for the guest",
        "We need a name badge for the new colleague",
        "Have a badge made out to the guest",
        "Run off a badge for the visitor",
        "A new badge with the right name",
        "Make a badge that reads Reception",
    ),
)
def print_badge(
    *,
    name: Annotated[
        str,
        Field(
            description="Whose badge it is.",
            min_length=1,
            max_length=200,
            json_schema_extra={"x-from": "name"},
        ),
    ],
) -> None:
    """Print a name badge for a visitor or a colleague.

    It always fails, to show how a thread goes on after a failed capability.
    """
    raise CapabilityError(f"the badge printer is offline, the badge for {name!r} is not printed")


def desk() -> Path:
    """Return the desk's folder; the first call makes it, with some papers in its tray."""
    home = os.environ.get("INTERLOCK_HOME", ".interlock")
    root = Path(os.environ.get("EXAMPLE_DESK", f"{home}/desk")).resolve()
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / "tray"):
        if not (root / "tray").exists():
            (root / "archive").mkdir(exist_ok=True)
            shutil.copytree(PAPERS, root / "tray.new", dirs_exist_ok=True)
            (root / "tray.new").rename(root / "tray")
    return root


def _on_desk(root: Path, path: str) -> Path:
    resolved = (root / path).resolve()
    if resolved == root or not resolved.is_relative_to(root):
        raise CapabilityError(f"{path!r} is not on the desk")
    return resolved


def _calendar(file: Path) -> Calendar:
    if file.exists():
        calendar = Calendar.from_ical(file.read_bytes())
        assert isinstance(calendar, Calendar), "an .ics file has one calendar"
        return calendar
    calendar = Calendar()
    calendar.add("prodid", "-//Interlock//Desk example//EN")
    calendar.add("version", "2.0")
    return calendar


def _mark(key: str) -> str:
    """Return a short mark for the key of a call; the same key always gives the same mark."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]
