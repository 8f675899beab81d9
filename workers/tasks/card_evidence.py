"""The evidence beside the card of a task: what its agent did, said and wrote last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from interlock.kernel.errors import UnknownRecordError
from interlock.kernel.machines.tasks.task.questions import counts_text, diff_command
from interlock.kernel.record import Record
from interlock.workers.client import Client
from interlock.workers.engine.evidence import Evidence, EvidenceKind
from interlock.workers.files.tail import last_lines
from interlock.workers.tasks.claim_names import ClaimNames
from interlock.workers.tasks.client import OUTPUT, NoOutputError, Tasks
from interlock.workers.tasks.task_diff import NoDiffError, task_diff

DIFF_BYTES_MAX = 60_000
OUTPUT_LINES_MAX = 40


def evidence(client: Client, record: Record) -> Iterator[Evidence]:
    """Yield what is known of a task's work: the request, the diff, the summary, the output."""
    data = record.data
    if data.get("text"):
        yield Evidence("What was asked", data["text"])
    if data.get("summary"):
        yield Evidence("What the agent says it did", data["summary"])
    if signals := data.get("signals"):
        listed = "\n".join(f"{each['type']} {each['value']}" for each in signals)
        verified = record.state == "pending_approval"
        yield Evidence("What was verified" if verified else "What is verified", listed)
    if data.get("changes"):
        push = f", then pushed to {data['push']}" if data.get("push") else ""
        yield Evidence("What a merge touches", f"{data['repo']}: its branch {data['target']}{push}")
        yield from _difference(client, record)
    if int(data.get("claimed", 0)) and data.get("agent"):
        yield _output(client, record)


def _difference(client: Client, record: Record) -> Iterator[Evidence]:
    """Yield the difference that a merge would bring, file by file, as git has it here."""
    data = record.data
    title = f"{counts_text(data['changes'])}, on the branch {data['branch']}"
    host = _host(client, record)
    if host != client.settings.host:
        where = f"The branch is on the machine {host}; there: {diff_command(data)}"
        yield Evidence(title, missing=where)
        return
    try:
        found = task_diff(record, bytes_max=DIFF_BYTES_MAX)
    except NoDiffError as refusal:
        yield Evidence(title, missing=f"It cannot be shown: {refusal}.")
        return
    unnamed = f"{found.unnamed} more files are not shown." if found.unnamed else ""
    yield Evidence(title, missing=unnamed)
    for file in found.files:
        yield Evidence(
            f"{file.kind} {file.path}", _hunks(file.text), EvidenceKind.DIFF, file.missing
        )


def _hunks(text: str) -> str:
    """Return a file's difference without the lines that name the file again."""
    begin = text.find("\n@@")
    return text[begin + 1 :] if begin >= 0 else ""


def _output(client: Client, record: Record) -> Evidence:
    """Return the end of what the agent of the last claim wrote."""
    title = "The end of the agent's output"
    try:
        file = Tasks(client).logs(record.id) / OUTPUT
    except NoOutputError as refusal:
        return Evidence(title, missing=f"{refusal}.")
    whole = f"The whole output: interlock task logs {record.id}"
    return Evidence(title, last_lines(file, OUTPUT_LINES_MAX), EvidenceKind.OUTPUT, whole)


def _host(client: Client, record: Record) -> str:
    """Return the machine on which the agent of the last claim worked."""
    agent = ClaimNames(record.id, int(record.data["claimed"])).agent
    with suppress(UnknownRecordError):
        return str(client.show(agent).data.get("host") or client.settings.host)
    return client.settings.host
