"""`interlock report`, for an agent or codon: says a line of its own work to whoever keeps it.

It needs no store and no settings: an agent is given neither, only a descriptor to write to.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Annotated

import typer

from interlock.workers.config import PREFIX
from interlock.workers.processes.agent.process import REPORT_FD
from interlock.workers.supervision.reports import Rejected, parse_line
from interlock.workers.supervision.session_streams import read_said
from interlock.workers.terminal.answer import AsJson, fail

# Only a codon's process is told which one it is; a codon may say what no task's agent can.
CODON = f"{PREFIX}CODON"


def line_of(kind: str, fields: Sequence[str]) -> bytes:
    """Return the line of a report; a value is JSON where it can be, and else text."""
    told: dict[str, object] = {"type": kind}
    for field in fields:
        name, given, value = field.partition("=")
        if not given:
            raise ValueError(f"{field!r} is no name=value")
        try:
            told[name] = json.loads(value)
        except ValueError:
            told[name] = value
    return json.dumps(told, ensure_ascii=False).encode() + b"\n"


def report(
    kind: Annotated[
        str, typer.Argument(help="ready, tool_started, tool_completed, verify_requested, ...")
    ],
    fields: Annotated[
        list[str] | None, typer.Argument(help="Its fields: name=value, as JSON or as text.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say how your own work goes; for the command of an agent or codon that Interlock runs."""
    try:
        line = line_of(kind, fields or ())
    except ValueError as problem:
        fail(str(problem), as_json=as_json, kind="UsageError")
    read = read_said(line) if CODON in os.environ else parse_line(line)
    if isinstance(read, Rejected):
        fail(read.reason, as_json=as_json, kind="UsageError")
    descriptor = os.environ.get(REPORT_FD, "")
    if not descriptor.isdigit():
        sentence = f"{REPORT_FD} is not set: only an agent that Interlock runs can report"
        fail(sentence, as_json=as_json, kind="UsageError")
    try:
        os.write(int(descriptor), line)
    except OSError as refusal:
        sentence = f"nobody reads the report: {refusal}"
        fail(sentence, as_json=as_json, kind=type(refusal).__name__)
