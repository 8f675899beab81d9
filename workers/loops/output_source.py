"""Says where the output of a session of a long-lived agent is."""

from __future__ import annotations

from interlock.kernel.record import Record
from interlock.kernel.store.outputs import OutputSource
from interlock.workers.client import Client
from interlock.workers.loops.paths import session_below_home


def output_source(_: Client, record: Record) -> OutputSource | None:
    """Return where the output of the last session of a life is; None before there is one."""
    return session_output(record)


def session_output(record: Record, attempt: int | None = None) -> OutputSource | None:
    """Return where the output of an attempt to run a session is, by default of the last one."""
    number = int(record.data["attempt"]) if attempt is None else attempt
    # A life that waits for another computer still has its files on the one before.
    host = record.data.get("host") or record.data.get("former")
    if not (number and host):
        return None
    return OutputSource(str(host), session_below_home(record.id, number).as_posix())
