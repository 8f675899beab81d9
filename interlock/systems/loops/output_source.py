"""Says where the output of a session of a long-lived agent is."""

from __future__ import annotations

from interlock import Client
from interlock.system.agents import NoOutputError
from interlock.system.records import OutputSource
from interlock.system.tables import Record
from interlock.systems.loops.paths import session_below_home


def output_source(_: Client, record: Record, run: int | None = None) -> OutputSource | None:
    """Return where the output of a session of a life is, by default of the last one.

    None before there is one. Raises NoOutputError if the life has had no such session.
    """
    return session_output(record, run)


def session_output(record: Record, attempt: int | None = None) -> OutputSource | None:
    """Return where the output of an attempt to run a session is, by default of the last one."""
    last = int(record.data["attempt"])
    number = last if attempt is None else attempt
    if attempt is not None and not 0 < attempt <= last:
        raise NoOutputError(f"{record.id} has had no session {attempt}; it has had {last}")
    # A life that waits for another computer still has its files on the one before.
    host = record.data.get("host") or record.data.get("former")
    if not (number and host):
        return None
    return OutputSource(str(host), session_below_home(record.id, number).as_posix(), number)
