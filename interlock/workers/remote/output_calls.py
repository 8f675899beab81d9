"""The calls that read what agents print, and what records have changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from interlock.git.diff import FileDiff
from interlock.kernel.record import record_id
from interlock.workers.engine.printed_output import (
    LastRun,
    Logs,
    OutputState,
    PrintedOutput,
    follow_output,
    published_logs,
)
from interlock.workers.engine.record_diff import DiffState, RecordDiff, awaited_diff
from interlock.workers.remote.bodies import Body, each_of, known, shown_of
from interlock.workers.remote.connection import ApiConnection


class OutputCalls:
    """The part of `HttpClient` that reads outputs and differences, from whatever computer."""

    api: ApiConnection

    def logs(self, record: str, *, number: int | None = None) -> Logs:
        """Return the end of what the agent of a record printed, as its computer publishes it.

        `number` is that of the session or claim; by default it is the last one. A note says where
        work of a task is that was not merged. Raises NoOutputError.
        """
        found = published_logs(partial(self._look, record, number, 0))
        path = f"/v1/records/{record_id(record)}:description"
        return replace(found, note=found.note + self.api.call(_left_of, "GET", path))

    def tail(self, record: str, *, newest: Callable[[], str] | None = None) -> Iterator[str]:
        """Yield what the agent of a record prints, until the record has ended or asks a person.

        It begins with what is printed from now on. `newest` returns the record that follows this
        one, such as the next life of an agent. Raises NoOutputError if the worker of the agent's
        computer does not answer.
        """
        return follow_output(lambda: self._last_run(newest() if newest else record), self._look)

    def diff(self, record: str, *, between: str = "") -> RecordDiff:
        """Return what the work on a task changes, or how two checkpoints of a run differ.

        `between` names the checkpoints by their whole ids, as `<id>..<id>`. Raises NoDiffError.
        """
        path = f"/v1/records/{record_id(record)}:diff"
        return awaited_diff(lambda: self.api.call(_diff_of, "GET", path, between=between))

    def checkpoints(self, record: str) -> list[dict[str, str]]:
        """Return the checkpoints of a run's folder, the oldest first. Other records have none."""
        path = f"/v1/records/{record_id(record)}:checkpoints"
        return self.api.call(each_of(dict), "GET", path)

    def _last_run(self, record: str) -> LastRun:
        shown = self.api.call(shown_of, "GET", f"/v1/records/{record_id(record)}")
        is_over = shown.asks_person or (shown.ended and not shown.record.entries)
        return LastRun(record, self._look(record, None, 0).run, is_over)

    def _look(self, record: str, run: int | None, position: int) -> PrintedOutput:
        query: dict[str, Any] = {"after": position} | ({} if run is None else {"run": run})
        path = f"/v1/records/{record_id(record)}:output"
        return self.api.call(_printed_of, "GET", path, **query)


def _left_of(body: Body) -> str:
    """Return the sentences about what a record's work has left, as its description has them."""
    left = str((body["details"] or {}).get("left", ""))
    return f"{left}\n" if left else ""


def _printed_of(body: Body) -> PrintedOutput:
    return known(PrintedOutput, {**body, "state": OutputState(body["state"])})


def _diff_of(body: Body) -> RecordDiff:
    files = tuple(known(FileDiff, each) for each in body["files"])
    return known(RecordDiff, {**body, "state": DiffState(body["state"]), "files": files})
