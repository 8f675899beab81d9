"""The evidence beside the card of a task: what its agent did, said and wrote last."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from interlock.kernel.errors import UnknownRecordError
from interlock.kernel.machines.tasks.task.questions import counts_text, diff_command
from interlock.kernel.record import Record
from interlock.workers.client import Client
from interlock.workers.engine.evidence import Evidence, EvidenceKind
from interlock.workers.gateways.git.branch import mark_of
from interlock.workers.gateways.git.diff import Diff, diff
from interlock.workers.gateways.git.errors import GitError
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.tasks.claim_names import ClaimNames
from interlock.workers.tasks.client import OUTPUT, NoOutputError, Tasks

DIFF_BYTES_MAX = 60_000
OUTPUT_BYTES_MAX = 4_000
GIT_S = 5.0  # so long a page waits for git


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
        yield _difference(client, record)
    if int(data.get("claimed", 0)) and data.get("agent"):
        yield _output(client, record)


def _difference(client: Client, record: Record) -> Evidence:
    """Return the difference that a merge would bring, as git knows it on this machine."""
    data = record.data
    title = f"{counts_text(data['changes'])}, on the branch {data['branch']}"
    host = _host(client, record)
    if host != client.settings.host:
        where = f"The branch is on the machine {host}; there: {diff_command(data)}"
        return Evidence(title, missing=where)
    try:
        repository = Repository.open(Path(data["repo"]), command_s=GIT_S)
        mark = mark_of(repository, data["branch"])
        found = diff(
            repository,
            base=mark.base if mark else data["target"],
            commit=data["branch"],
            bytes_max=DIFF_BYTES_MAX,
            within_s=GIT_S,
        )
    except (GitError, OSError) as failure:
        return Evidence(title, missing=f"git does not show it: {failure}")
    return Evidence(title, _text_of(found), EvidenceKind.DIFF, _missing(found))


def _text_of(found: Diff) -> str:
    """Return the difference, with a line about each file before its own."""
    return "\n".join(
        f"--- {file.kind}: {shlex.quote(file.path)}\n{_hunks(file.text)}".rstrip()
        for file in found.files
    )


def _hunks(text: str) -> str:
    """Return a file's difference without the lines that name the file again."""
    begin = text.find("\n@@")
    return text[begin + 1 :] if begin >= 0 else ""


def _missing(found: Diff) -> str:
    """Say which part of a difference is not shown."""
    cut = [f"{file.path}: {file.missing}" for file in found.files if file.missing]
    cut += [f"{found.unnamed} more files"] if found.unnamed else []
    return f"Not shown whole: {'; '.join(cut)}." if cut else ""


def _output(client: Client, record: Record) -> Evidence:
    """Return the end of what the agent of the last claim wrote."""
    title = "The end of the agent's output"
    try:
        content = (Tasks(client).logs(record.id) / OUTPUT).read_bytes()
    except NoOutputError as refusal:
        return Evidence(title, missing=f"{refusal}.")
    cut = f"The first {len(content) - OUTPUT_BYTES_MAX} bytes are not shown: "
    missing = f"{cut}interlock task logs {record.id}" if len(content) > OUTPUT_BYTES_MAX else ""
    text = content[-OUTPUT_BYTES_MAX:].decode(errors="replace")
    return Evidence(title, text, EvidenceKind.OUTPUT, missing)


def _host(client: Client, record: Record) -> str:
    """Return the machine on which the agent of the last claim worked."""
    agent = ClaimNames(record.id, int(record.data["claimed"])).agent
    with suppress(UnknownRecordError):
        return str(client.show(agent).data.get("host") or client.settings.host)
    return client.settings.host
