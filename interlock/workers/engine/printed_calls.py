"""The calls of a client that read what agents print: what is kept here, or what is published."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import PurePath

from interlock.kernel.errors import CallError
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record
from interlock.kernel.shortened import shortened
from interlock.kernel.store.outputs import ERRORS, OUTPUT, OutputSource
from interlock.kernel.table import Terminal
from interlock.workers.config import Settings
from interlock.workers.engine.agent_output import look_at
from interlock.workers.engine.card import asks_person
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.own_systems import added_systems
from interlock.workers.engine.printed_output import (
    LastRun,
    Logs,
    NoOutputError,
    PrintedOutput,
    follow_output,
    published_logs,
)
from interlock.workers.engine.system import System, SystemsError, load

VALUE_LENGTH_MAX = 300  # of a wrong value that an error shows


class PrintedCalls(ABC):
    """The part of `Client` that reads outputs. `HttpClient` has the same calls."""

    settings: Settings
    dispatch: Dispatch
    machines: Mapping[str, Machine]

    @abstractmethod
    def show(self, record_id: str) -> Record:
        """Return a record as it is now."""

    def logs(self, record: str, *, number: int | None = None) -> Logs:
        """Return the output of a record's agent: all of it on its own computer, else its end.

        `number` is that of the session or claim; by default it is the last one. A note says what is
        missing, and where work of a task is that was not merged. Raises NoOutputError.
        """
        shown = self.show(record)
        source = output_source(self, shown, number)
        found = self._kept(source) or published_logs(lambda: self._look(source, 0))
        return replace(found, note=found.note + self._left_of(shown))

    def tail(self, record: str, *, newest: Callable[[], str] | None = None) -> Iterator[str]:
        """Yield what the agent of a record prints, until the record has ended or asks a person.

        It begins with what is printed from now on. `newest` returns the record that follows this
        one, such as the next life of an agent. Raises NoOutputError if the worker of the agent's
        computer does not answer.
        """

        def poll() -> LastRun:
            shown = self.show(newest() if newest else record)
            source, machine = output_source(self, shown), self.machines[shown.machine]
            has_ended = isinstance(machine.stage(shown.state), Terminal) and not shown.entries
            is_over = has_ended or asks_person(machine, shown)
            return LastRun(shown.id, source.run if source else 0, is_over)

        def look(record_id: str, run: int, position: int) -> PrintedOutput:
            return self._look(output_source(self, self.show(record_id), run), position)

        return follow_output(poll, look)

    def _kept(self, source: OutputSource | None) -> Logs | None:
        """Return all output of an agent from its files; None where they are not here."""
        if source is None or source.host != self.settings.host:
            return None
        folder = self.settings.home.absolute() / source.folder
        if not (folder / OUTPUT).exists():
            return None
        output, errors = ((folder / name).read_bytes() for name in (OUTPUT, ERRORS))
        return Logs(output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))

    def _look(self, source: OutputSource | None, position: int) -> PrintedOutput:
        return look_at(self.dispatch, {"": source})[""].printed(position)

    def _left_of(self, record: Record) -> str:
        """Return the sentences about what a record's work has left, as `show` prints them."""
        rows = (each.details for each in added_systems().values())
        details = next((named[record.machine] for named in rows if record.machine in named), "")
        left = str(load(details)(self, record).get("left", "")) if details else ""
        return f"{left}\n" if left else ""


def output_source(
    client: PrintedCalls, record: Record, run: int | None = None
) -> OutputSource | None:
    """Return where the output of a run of a record's agent is, None before there is one.

    `run` is the number of the session or claim, by default of the last one. Raises NoOutputError if
    there was no such run, and CallError if records of its machine have no agent that prints.
    """
    systems = added_systems().values()
    system = next((each for each in systems if record.machine in each.outputs), None)
    if system is None:
        known = ", ".join(sorted(machine for each in systems for machine in each.outputs))
        raise CallError(
            f"{record.id} is a {record.machine}; only records of these machines have an output of "
            f"an agent: {known}"
        )
    find = partial(_place, client, system, record)
    place = find(None)
    if run is not None:
        runs = place[2] if place else 0
        if not 0 < run <= runs:
            raise NoOutputError(f"{record.id} has no run {run} of an agent; it has had {runs}")
        place = find(run)
    if place is None:
        return None
    host, folder, number = place
    return OutputSource(host, folder.as_posix(), number)


def _place(
    client: PrintedCalls, system: System, record: Record, run: int | None
) -> tuple[str, PurePath, int] | None:
    """Return where an output is, as its system says. Raises SystemsError for what is no place."""
    where = system.outputs[record.machine]
    match load(where)(client, record, run):
        case None:
            return None
        case (str(host), PurePath() as folder, int(number)):
            return host, folder, number
        case found:
            raise SystemsError(
                f"{where}, the outputs of {record.machine} in {system.name}, returned "
                f"{shortened(repr(found), VALUE_LENGTH_MAX)}; return the computer, the folder as a "
                "Path and the number of the run, or None"
            )
