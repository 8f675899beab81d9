"""Reads the output of agents from the store: all that is kept here, or what is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from interlock.kernel.record import Record
from interlock.kernel.store.outputs import OutputSource
from interlock.kernel.table import Terminal
from interlock.workers.client import Client
from interlock.workers.engine.card import asks_person
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.printed_output import (
    LastRun,
    Logs,
    PrintedOutput,
    follow_output,
    published_logs,
)
from interlock.workers.supervision.agent_output import look_at
from interlock.workers.supervision.output_files import ERRORS, OUTPUT

# Where the output of a run of a record's agent is, of the last one for None.
FindSource = Callable[[Client, Record, int | None], OutputSource | None]


def read_logs(client: Client, source: OutputSource | None) -> Logs:
    """Return all output of an agent, or its end if it is on another computer.

    Raises NoOutputError.
    """
    settings = client.settings
    folder = settings.home.absolute() / source.folder if source else None
    if source and folder and source.host == settings.host and (folder / OUTPUT).exists():
        output, errors = ((folder / name).read_bytes() for name in (OUTPUT, ERRORS))
        return Logs(output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))
    return published_logs(lambda: look_after(client.dispatch, source, 0))


def tail_agent(
    client: Client, find_record: Callable[[], Record], find_source: FindSource
) -> Iterator[str]:
    """Yield what the runs of an agent print, until its record has ended or asks a person.

    It begins with what is printed from now on. Raises NoOutputError if the worker of the agent's
    computer does not answer.
    """

    def poll() -> LastRun:
        record = find_record()
        machine = client.machines[record.machine]
        has_ended = isinstance(machine.stage(record.state), Terminal) and not record.entries
        source = find_source(client, record, None)
        is_over = has_ended or asks_person(machine, record)
        return LastRun(record.id, source.run if source else 0, is_over)

    def look(record_id: str, run: int, position: int) -> PrintedOutput:
        source = find_source(client, client.show(record_id), run)
        return look_after(client.dispatch, source, position)

    return follow_output(poll, look)


def look_after(dispatch: Dispatch, source: OutputSource | None, position: int) -> PrintedOutput:
    """Look at what one run of an agent has printed after a position."""
    return look_at(dispatch, {"": source})[""].printed(position)
