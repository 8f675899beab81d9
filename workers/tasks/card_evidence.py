"""The evidence beside the card of a task: what its agent did, said and wrote last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from interlock.kernel.errors import UnknownRecordError
from interlock.kernel.machines.tasks.task.questions import counts_text, diff_command
from interlock.kernel.record import Record
from interlock.workers.client import Client
from interlock.workers.supervision.agent_output import agent_output
from interlock.workers.tasks.claim_names import ClaimNames
from interlock.workers.tasks.output_source import output_source
from interlock.workers.tasks.task_diff import NoDiffError, task_diff
from interlock.workers.terminal.page import (
    Cell,
    CopyableText,
    NamedCells,
    Section,
    Sentence,
    diff_parts,
)

DIFF_BYTES_MAX = 60_000


def evidence(client: Client, record: Record) -> Iterator[Section]:
    """Yield what is known of a task's work: the request, the diff, the summary, the output."""
    data = record.data
    if data.get("text"):
        yield Section("What was asked", [Sentence(data["text"])])
    if data.get("summary"):
        yield Section("What the agent says it did", [Sentence(data["summary"])])
    if signals := data.get("signals"):
        listed = "\n".join(f"{each['type']} {each['value']}" for each in signals)
        title = "What was verified" if record.state == "pending_approval" else "What is verified"
        yield Section(title, [Sentence(listed)])
    if data.get("changes"):
        touched: dict[str, Cell] = {
            "repository": CopyableText(data["repo"]),
            "merges the branch": CopyableText(data["branch"]),
            "into the branch": CopyableText(data["target"]),
            "then pushes to": str(data.get("push") or ""),
        }
        yield Section("What a merge touches", [NamedCells(touched)])
        yield _difference(client, record)
    if int(data.get("claimed", 0)) and data.get("agent"):
        yield _output(client, record)


def _difference(client: Client, record: Record) -> Section:
    """Return the difference that a merge would bring, file by file, as git has it here."""
    data = record.data
    title = f"What a merge changes: {counts_text(data['changes'])}"
    host = _host(client, record)
    if host != client.settings.host:
        where = f"The branch is on the computer {host}. This command shows the difference there:"
        return Section(title, [Sentence(where, "soft"), Sentence(CopyableText(diff_command(data)))])
    try:
        found = task_diff(record, bytes_max=DIFF_BYTES_MAX)
    except NoDiffError as refusal:
        return Section(title, [Sentence(f"It cannot be shown: {refusal}.", "soft")])
    return Section(title, list(diff_parts(found)))


def _output(client: Client, record: Record) -> Section:
    """Return the end of what the agent of the last claim wrote."""
    output = agent_output(client.dispatch, record.id, output_source(client, record))
    whole = f"`interlock task logs {record.id}` on the agent's computer prints the whole output."
    return Section("The end of the agent's output", [output, Sentence(whole, "soft")])


def _host(client: Client, record: Record) -> str:
    """Return the machine on which the agent of the last claim worked."""
    agent = ClaimNames(record.id, int(record.data["claimed"])).agent
    with suppress(UnknownRecordError):
        return str(client.show(agent).data.get("host") or client.settings.host)
    return client.settings.host
