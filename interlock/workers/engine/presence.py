"""Announces a process of a deployment with its tables, which it compares at its start.

It ends the process once the format of the store is another one.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import suppress
from functools import partial

from interlock.kernel.errors import StoreError, StoreFormatError, StrandedError
from interlock.kernel.store.format import refuse_changed_format, release
from interlock.kernel.store.scripts import GUARD_S
from interlock.kernel.store.tables import Process
from interlock.workers.engine.announcement import Announcer
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.table_check import check_tables

log = logging.getLogger(__name__)

WORKER = "worker"  # the kind of processes that make their tables those of the deployment


class Presence:
    """The presence of one process in its deployment, from its start to its end."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._name = ""
        self._announcer: Announcer | None = None
        self._ended = threading.Event()

    def begin(self, kind: str, name: str) -> None:
        """Compare the tables of this process with those that are applied, and announce it.

        Its `name` is the same after a restart. Raises StrandedError, StoreError.
        """
        threading.Thread(target=self._watch, name="format of the store", daemon=True).start()
        applied_by = f"{name} with Interlock {release()}" if kind == WORKER else ""
        check_tables(self._dispatch, applied_by=applied_by)
        tables = {each.name: each.digest for each in self._dispatch.machines.values()}
        process = Process(name, kind, release(), tables)
        self._name, self._announcer = name, Announcer(name)
        self._announcer.start(partial(self._dispatch.tables.announce, process))

    def begin_anyway(self, kind: str, name: str) -> None:
        """Begin also where the store is away. A refusal of the tables ends the process."""
        try:
            self.begin(kind, name)
        except StrandedError as refusal:
            # Celery would only log any other error that a signal's receiver raises.
            raise SystemExit(f"interlock: {refusal}") from refusal
        except StoreError as refusal:
            log.warning("%s begins without the store: %s", name, refusal)

    def end(self) -> None:
        """Say that the process ends, if it has begun."""
        self._ended.set()
        if self._announcer is not None:
            self._announcer.stop()
            with suppress(StoreError):
                self._dispatch.tables.withdraw(self._name)

    def _watch(self) -> None:
        """End the process, as SIGTERM does, once another version has taken the store over."""
        while not self._ended.wait(GUARD_S):
            try:
                refuse_changed_format(self._dispatch.client, self._dispatch.keys)
            except StoreFormatError as refusal:
                log.critical("this process ends: %s", refusal)
                os.kill(os.getpid(), signal.SIGTERM)
                return
            except StoreError:
                continue  # the store is away: others say so
