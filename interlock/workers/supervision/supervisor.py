"""The base of every supervisor: it takes leases over from a worker, and renews them.

The fork server imports this module once for all supervisors. It imports only modules that every
kind of supervisor needs, because each further one costs memory in all of them.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from interlock.kernel.effect import Effect
from interlock.kernel.machines import MACHINES
from interlock.kernel.store.leases import Lease
from interlock.workers.config import read_settings
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.heartbeat import Heartbeat, HeldLease
from interlock.workers.engine.log_lines import log_always_about, set_up_log
from interlock.workers.engine.own_systems import add_systems_of
from interlock.workers.engine.publisher import open_publisher
from interlock.workers.engine.records import Records, component
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.task_events import TaskEvents
from interlock.workers.engine.trace_context import start_traces
from interlock.workers.engine.tracing import traced
from interlock.workers.engine.work import EffectWork
from interlock.workers.files.private import make_folders
from interlock.workers.processes.agent.process import AgentProcess, Exit
from interlock.workers.processes.clock import clock
from interlock.workers.supervision.launch import LaunchSpec, take_over_and_supervise
from interlock.workers.supervision.leased_process import (
    FolderDeletedError,
    LeasedProcess,
)
from interlock.workers.supervision.work_command import Command

# Read at import, so that the fork server has every table of ours before it forks.
TABLES = dict(MACHINES)


class ShownHeartbeat(Heartbeat):
    """Renews the leases of a supervisor, and shows their effects in Flower while it does."""

    def __init__(self, events: TaskEvents, dispatch: Dispatch, lease_s: float) -> None:
        super().__init__(lambda: dispatch.leases, lease_s=lease_s, begin=lambda: None)
        self._events = events

    def hold(self, held: HeldLease) -> None:
        """Renew a lease from now on."""
        super().hold(held)
        self._events.begin(held.lease)

    def drop(self, held: HeldLease) -> None:
        """Stop renewing a lease."""
        super().drop(held)
        self._events.end(held.lease)


class Supervisor(ABC):
    """A process that holds leases and outlives the worker that launched it.

    `machine` and `effect` name the effect whose lease is in the launch spec, which is of the type
    `spec_type`. The constructor of a subclass takes its leases over with `adopt`. It changes
    `records` in the name of the effect; its logs are in `work_folder`. `heartbeat` renews
    what is held: `with self.heartbeat.holding(work.held)`. If `run` raises, its process ends, and
    the sweep of orphans does what the state says of a lost effect. The module has `main =
    TheSubclass.supervise`.
    """

    machine: ClassVar[str]
    effect: ClassVar[Effect]
    spec_type: ClassVar[type[LaunchSpec]] = LaunchSpec

    def __init__(self, spec: LaunchSpec, records: Records) -> None:
        self.records, self.dispatch = records.named(self.effect.name), records.dispatch
        self.work_folder = Path(spec.work_folder)
        dispatch, self.resources = self.dispatch, Resources(records.settings)
        lease_s = records.effect(self.machine, self.effect.name).lease_ms / 1_000
        self.events = TaskEvents(dispatch, spec.worker)
        self.heartbeat = ShownHeartbeat(self.events, dispatch, lease_s)
        self._adopted: list[Lease] = []

    @classmethod
    def supervise(cls) -> None:
        """Make the supervisor of the launch spec whose file is sys.argv[1], and run it."""
        settings = read_settings()
        set_up_log(settings.log_format)
        start_traces(settings, "supervisor")
        spec = cls.spec_type.read(Path(sys.argv[1]))
        take_over_and_supervise(
            Path(spec.work_folder),
            lambda: cls(spec, component(open_dispatch(), "supervisor")).run_to_end,
        )

    def run_to_end(self) -> None:
        """Supervise to the end in a span of each lease, and show Flower how that was.

        Each line of this process's log names the lease that was adopted last. What the supervisor
        starts is below the span of the one that was adopted first, as is the trace of each line.
        """
        with ExitStack() as stack:
            stack.callback(self.events.close)
            for lease in self._adopted:
                log_always_about(record=lease.record.id, effect=lease.name, attempt=lease.attempt)
            for lease in reversed(self._adopted):
                stack.enter_context(traced(self.dispatch.views, lease.record, lease))
            with suppress(FolderDeletedError):
                self.run()

    @abstractmethod
    def run(self) -> None:
        """Supervise to the end, and fire the outcome."""

    def adopt(self, machine: str, effect: Effect, key: str, token: str) -> EffectWork:
        """Take a lease over. Raises FencedError if its token is not valid any more."""
        asked_at = clock()
        lease = self.dispatch.leases.adopt(
            key,
            self.dispatch.effect(machine, effect.name),
            token,
            nonce=uuid4().hex[:8],
            holder=f"{self.dispatch.holder}:{os.getpid()}",
        )
        self._adopted.append(lease)
        return EffectWork(self.dispatch, self.resources, lease, asked_at=asked_at)

    def taken(self, take: Callable[[], Lease | None]) -> EffectWork | None:
        """Return the work of a lease that a call gives to this process; None if it gives none.

        The time of the lease counts from the beginning of the call.
        """
        asked_at = clock()
        if (lease := take()) is None:
            return None
        return EffectWork(self.dispatch, self.resources, lease, asked_at=asked_at)

    @contextmanager
    def holding(self, work: EffectWork) -> Iterator[None]:
        """Renew the lease of a further work while the block runs, in a span of that work."""
        with (
            traced(self.dispatch.views, work.record, work.lease),
            self.heartbeat.holding(work.held),
        ):
            yield

    def run_command(
        self,
        command: Command,
        leases: Callable[[], Iterable[EffectWork]],
        *,
        act: Callable[[AgentProcess], object],
        read: Callable[[AgentProcess], object] = AgentProcess.reports,
        started: Callable[[AgentProcess], object] = lambda _: None,
    ) -> Exit:
        """Run a command whose process lives no longer than leases do, and return how it ended.

        `leases` returns the present ones. `started` is called once it runs. At every poll `read`
        takes what the process has written, and while the process runs, `act` may end it. If this
        supervisor dies, the process is killed. Raises OSError if it cannot be started.
        """
        log_bytes_max = self.records.settings.agent_log_bytes_max
        logged = replace(command, logs=self.work_folder / command.logs)
        if logged.logs != self.work_folder:
            make_folders(logged.logs)
        process = LeasedProcess(
            logged, leases, log_bytes_max=log_bytes_max, work_folder=self.work_folder
        )
        return process.run(read=read, act=act, started=started)


def open_dispatch() -> Dispatch:
    """Return the dispatch of this process."""
    settings = read_settings()
    add_systems_of(settings)
    machines = {**TABLES, **MACHINES}
    return Dispatch(settings, machines, open_publisher(settings, machines))
