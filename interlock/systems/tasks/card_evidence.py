"""The evidence beside the card of a task: what its agent did, said and wrote last."""

from __future__ import annotations

from collections.abc import Iterator

from interlock import Client
from interlock.system.pages import LivePart, Part, Section, Sentence, Verbatim
from interlock.system.tables import Record
from interlock.systems.tasks.left_work import left_work
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.names import State
from interlock.systems.tasks.machines.task.questions import counts_text, diff_command
from interlock.systems.tasks.task_diff import host_of_task


def evidence(client: Client, record: Record[TaskData]) -> Iterator[Section]:
    """Yield what is known of a task's work: the request, the diff, the summary, the output."""
    data = record.data
    if data.get("text"):
        yield Section("What was asked", [Sentence(data["text"])], place="first")
    if data.get("summary"):
        summary = [Sentence(data["summary"])]
        yield Section("What the agent says it did", summary, is_once=True)
    if signals := data.get("signals"):
        listed = "\n".join(f"{each['type']} {each['value']}" for each in signals)
        title = (
            "What was verified" if record.state == State.PENDING_APPROVAL else "What is verified"
        )
        yield Section(title, [Sentence(listed)])
    if data.get("changes"):
        touched: dict[str, object] = {
            "repository": Verbatim(data["repo"]),
            "merges the branch": Verbatim(data["branch"]),
            "into the branch": Verbatim(data["target"]),
            "then pushes to": str(data.get("push") or ""),
        }
        yield Section("What a merge touches", [touched])
        yield _difference(client, record)
    if left := left_work(client.records, record):
        rows: dict[str, object] = {f"{each.place}": Verbatim(each.command) for each in left}
        yield Section("Where work is that was not merged", [rows])
    if int(data.get("claimed", 0)) and data.get("agent"):
        yield _output(record)


def _difference(client: Client, record: Record[TaskData]) -> Section:
    """Return the difference that a merge would bring, file by file."""
    data = record.data
    title = f"What a merge changes: {counts_text(data['changes'])}"
    parts: list[Part] = [LivePart("diff", record)]
    if (host := host_of_task(client.records, record)) not in ("", client.settings.host):
        where = f"The branch is on the computer {host}. This command shows all of it there:"
        parts += [Sentence(where, "soft"), Sentence(Verbatim(diff_command(data)))]
    return Section(title, parts, place="wide")


def _output(record: Record[TaskData]) -> Section:
    """Return the end of what the agent of the last claim wrote."""
    whole = f"`interlock task logs {record.id}` on the agent's computer prints the whole output."
    parts: list[Part] = [LivePart("output", record), Sentence(whole, "soft")]
    return Section("The end of the agent's output", parts, place="wide")
