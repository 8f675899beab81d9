"""The calls that read what agents print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from interlock.kernel.record import record_id
from interlock.workers.engine.printed_output import (
    LastRun,
    Logs,
    OutputState,
    PrintedOutput,
    follow_output,
    published_logs,
)
from interlock.workers.remote.bodies import Body, known, shown_of
from interlock.workers.remote.connection import ApiConnection


class OutputCalls:
    """The part of `HttpClient` that reads the output of coding tasks and long-lived agents."""

    api: ApiConnection

    def logs(self, record: str, *, number: int | None = None) -> Logs:
        """Return the end of what the agent of a record printed, as its computer publishes it.

        `number` is that of the session or claim; by default it is the last one. Raises
        NoOutputError.
        """
        return published_logs(partial(self._look, record, number, 0))

    def tail(self, record: str, *, newest: Callable[[], str] | None = None) -> Iterator[str]:
        """Yield what the agent of a record prints, until the record has ended or asks a person.

        It begins with what is printed from now on. `newest` returns the record that follows this
        one, such as the next life of an agent. Raises NoOutputError if the worker of the agent's
        computer does not answer.
        """
        return follow_output(lambda: self._last_run(newest() if newest else record), self._look)

    def _last_run(self, record: str) -> LastRun:
        shown = self.api.call(shown_of, "GET", f"/v1/records/{record_id(record)}")
        is_over = shown.asks_person or (shown.ended and not shown.record.entries)
        return LastRun(record, self._look(record, None, 0).run, is_over)

    def _look(self, record: str, run: int | None, position: int) -> PrintedOutput:
        query: dict[str, Any] = {"after": position} | ({} if run is None else {"run": run})
        path = f"/v1/records/{record_id(record)}:output"
        return self.api.call(_printed_of, "GET", path, **query)


def _printed_of(body: Body) -> PrintedOutput:
    return known(PrintedOutput, {**body, "state": OutputState(body["state"])})
