"""`interlock report`: a command with which an agent's process reports to its supervisor.

It needs no store and no settings. An agent has neither, only a file descriptor to write to.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Annotated

import typer

from interlock.workers.config import PREFIX
from interlock.workers.processes.agent.process import REPORT_FD
from interlock.workers.supervision.reports import RejectedLine
from interlock.workers.supervision.streams.interlock import ReportKinds, parse_line
from interlock.workers.terminal.command import Shell, guarded

# The supervisor of a process with a session sets this variable to "session".
REPORT_KINDS = f"{PREFIX}REPORT_KINDS"


def line_of(kind: str, fields: Sequence[str]) -> bytes:
    """Return a report as a line of JSON. A field whose value is not JSON is taken as text."""
    message: dict[str, object] = {"type": kind}
    for field in fields:
        name, given, value = field.partition("=")
        if not given:
            raise ValueError(f"{field!r} must be name=value")
        try:
            message[name] = json.loads(value)
        except ValueError:
            message[name] = value
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


@guarded
def report(
    shell: Shell,
    kind: Annotated[
        str, typer.Argument(help="ready, tool_started, tool_completed, verify_requested, ...")
    ],
    fields: Annotated[
        list[str] | None,
        typer.Argument(help="Its fields, each as name=value; a value is JSON or plain text."),
    ] = None,
) -> None:
    """Report on the work of an agent. Only a command that Interlock runs can call it."""
    try:
        line = line_of(kind, fields or ())
    except ValueError as problem:
        shell.fail(str(problem))
    has_session = os.environ.get(REPORT_KINDS) == ReportKinds.SESSION
    parsed = parse_line(line, ReportKinds.SESSION if has_session else ReportKinds.AGENT)
    descriptor = os.environ.get(REPORT_FD, "")
    if descriptor.isdigit():
        try:
            # A line that is refused is written too: the supervisor notes for people why.
            os.write(int(descriptor), line)
        except OSError as refusal:
            sentence = f"the report cannot be written: {refusal}"
            shell.fail(sentence, kind=type(refusal).__name__)
    if isinstance(parsed, RejectedLine):
        shell.fail(parsed.reason)
    if not descriptor.isdigit():
        sentence = f"{REPORT_FD} is not set: only an agent that Interlock runs can report"
        shell.fail(sentence)
