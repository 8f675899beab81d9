"""A deployment for a test: real Celery workers and beat with their own prefix in the store."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import redis

from interlock.kernel.errors import StoreError, UnknownRecordError
from interlock.kernel.event import Event, Note
from interlock.kernel.record import PARTITIONS, Record, partition_of, split_key
from interlock.kernel.store.codec import entry_of
from interlock.kernel.store.fold import fold
from interlock.kernel.table import Terminal
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from tests.preloaded_process import Preloaded
from tests.processes import is_alive, kill_group, processes, start_of, still_runs
from tests.waiting import until

ROOT = Path(__file__).parents[2]
READY_S = 120.0
POLL_S = 0.1
STOP_S = 60.0
# A lease does not lapse because the computer is busy. `sees` ends those of lost processes.
LEASE_S = 60
EXPIRE_PERIOD_S = 1.0
# The positions of fields in the stored line of an effect, as in part/entry.lua of the store.
STATE, HOLDER, LEASE_UNTIL, KILL_BY, GRACE_MS = 2, 4, 10, 11, 19
# Ends a lease, unless its entry has changed meanwhile.
EXPIRE = """
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
  redis.call('ZADD', KEYS[2], ARGV[4], ARGV[5])
end
"""
# Task events, which only Flower reads, are a sixth of a worker's time. Each pass of the sweeps asks
# the store for all 64 partitions, and deployments share that store: one in two seconds is enough.
QUICK: Mapping[str, str] = {
    "INTERLOCK_LEASE_S": str(LEASE_S),
    "INTERLOCK_POLL_S": "1",
    "INTERLOCK_SWEEP_PERIOD_S": "2",
    "INTERLOCK_TASK_EVENTS": "0",
    "INTERLOCK_CANARY_S": "0",
    "INTERLOCK_CAPABILITIES": "tests.end_to_end.threads.capabilities",
}


@dataclass
class Process:
    """One worker or beat."""

    name: str
    id: int
    log: Path
    started: int = field(init=False)

    def __post_init__(self) -> None:
        self.started = start_of(self.id)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return still_runs(self.id, self.started)

    @property
    def output(self) -> str:
        """The log of the process so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def signal(self, number: int) -> None:
        """Send a signal to this process only."""
        with suppress(ProcessLookupError):
            os.kill(self.id, number)

    def kill(self) -> None:
        """Kill the process and all that it started, as if its computer had lost power."""
        kill_group(self.id, self.started)
        until(lambda: not self.alive, what=f"{self.name} is gone")

    def stop(self) -> None:
        """Send SIGTERM, as a deployment does, and wait for its end."""
        self.signal(signal.SIGTERM)
        until(lambda: not self.alive, what=f"{self.name} has ended", within_s=STOP_S)

    def is_ready(self) -> bool:
        """Whether it consumes messages; fails if it has ended."""
        assert self.alive, f"{self.name} ended at its start:\n{self.output[-3000:]}"
        return " ready." in self.output


@dataclass
class Deployment:
    """Workers and beat over one store, and a client for the test.

    Tests that share workers differ in `scope`, with which the names of their records begin.
    """

    preloaded: Preloaded
    folder: Path
    store_url: str
    prefix: str
    variables: dict[str, str] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    workers_wanted: int = 0
    scope: str = "b"
    ends_lost_leases: bool = True
    # How long a lost process is waited for after its lease; 0: as long as its effect says.
    grace_ms: int = 0
    expired_at: float = 0.0

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the processes of this deployment."""
        inherited = {name: value for name, value in os.environ.items() if "INTERLOCK" not in name}
        variables = {
            "INTERLOCK_STORE_URL": self.store_url,
            "INTERLOCK_PREFIX": self.prefix,
            "INTERLOCK_NAMESPACE": self.prefix,
            "INTERLOCK_HOME": str(self.folder / "home"),
            # Agents of tests write their process ids and other things beside their worktrees.
            "INTERLOCK_SANDBOX": "off",
            "DEPLOYMENT_FOLDER": str(self.folder),
        }
        return {**inherited, **QUICK, **variables, **self.variables}

    @cached_property
    def client(self) -> Client:
        """A client of this deployment."""
        variables = {k: v for k, v in self.environment.items() if k.startswith("INTERLOCK_")}
        return Client(read_settings(variables), actor="person")

    @property
    def recorded(self) -> list[dict[str, Any]]:
        """The lines that the capabilities of the tests recorded, in order."""
        file = self.folder / "recorded.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def saw(self, record_id: str, what: str) -> list[dict[str, Any]]:
        """Return the recorded lines of one record and one kind."""
        return [
            line for line in self.recorded if (line["record"], line["what"]) == (record_id, what)
        ]

    def worker(
        self,
        *,
        concurrency: int = 8,
        ready: bool = True,
        queues: Sequence[str] = (),
        **variables: str,
    ) -> Process:
        """Start a worker, and wait until it consumes messages."""
        name = f"w{uuid4().hex[:8]}"
        chosen = ["-Q", ",".join(f"{self.prefix}.{queue}" for queue in queues)] if queues else []
        argv = ["worker", "-P", "threads", "-c", str(concurrency), "-n", f"{name}@%h", *chosen]
        argv += ["--without-mingle", "--without-gossip", "--without-heartbeat", "-l", "INFO"]
        process = self._start(name, argv, variables)
        if ready:
            until(process.is_ready, what=f"{name} is ready", within_s=READY_S)
        return process

    def beat(self, **variables: str) -> Process:
        """Start beat."""
        name = f"beat{uuid4().hex[:6]}"
        return self._start(name, ["beat", "--pidfile=", "-l", "INFO"], variables)

    def intake(self) -> Process:
        """Start an intake worker."""
        name = f"intake{uuid4().hex[:6]}"
        argv = ["worker", "-P", "threads", "-c", "1", "-n", f"{name}@%h", "-l", "INFO"]
        argv += ["--without-mingle", "--without-gossip"]
        return self._start(name, argv, {}, app="interlock.workers.intake")

    def flower(self, port: int) -> Process:
        """Start Flower for a user `me` with the password `mine`."""
        argv = ["flower", "--address=127.0.0.1", f"--port={port}"]
        login = {"FLOWER_BASIC_AUTH": "me:mine"}
        return self._start("flower", argv, login, app="interlock.workers.flower")

    def full(self, *, workers: int = 1, concurrency: int = 8) -> Deployment:
        """Start workers and beat."""
        started = [self.worker(concurrency=concurrency, ready=False) for _ in range(workers)]
        self.beat()
        for process in started:
            until(process.is_ready, what=f"{process.name} is ready", within_s=READY_S)
        return self

    def tend(self, workers: int) -> Deployment:
        """Keep this many workers with one thread each: `sees` replaces those that died."""
        self.workers_wanted = workers
        self.beat()
        return self

    def sees(self, condition: Callable[[], Any], *, what: str, within_s: float = 120) -> Any:
        """Wait for a condition. It polls slowly, because the workers run on the same cores."""

        def poll() -> Any:
            if self.workers_wanted:
                self._replace_dead_workers()
            due_at = self.expired_at + EXPIRE_PERIOD_S
            if self.ends_lost_leases and due_at < time.monotonic():
                # The store of a test may be away.
                with suppress(StoreError, redis.RedisError):
                    self.expire_leases()
                self.expired_at = time.monotonic()
            if not (value := condition()):
                time.sleep(POLL_S)
            return value

        return until(poll, what=what, within_s=within_s)

    def expire_leases(self, *record_ids: str) -> None:
        """End the leases of processes that are gone, and of these records, before their time.

        Otherwise a test would wait for a lost process as long as for one that has no turn. After a
        start of the store the health gate still holds the ended leases back. A process whose number
        another one has got meanwhile is not found to be gone; its lease ends by itself.
        """
        dispatch = self.client.dispatch
        keys, store = dispatch.keys, dispatch.client
        now_ms = dispatch.views.now_ms()
        with store.pipeline(transaction=False) as pipe:
            for partition in range(PARTITIONS):
                pipe.zrange(keys.effects(partition), 0, -1)
            members = [member.decode() for found in pipe.execute() for member in found]
        with store.pipeline(transaction=False) as pipe:
            for member in members:
                pipe.hget(keys.record(split_key(member)[0]), f"e:{split_key(member)[1]}")
            lines = pipe.execute() if members else []
        for member, line in zip(members, lines, strict=True):
            record_id, suffix = split_key(member)
            parts = line.decode().split(" ") if line else []
            if parts[STATE:][:1] != ["leased"] or int(parts[LEASE_UNTIL]) <= now_ms:
                continue
            entry = entry_of(suffix, line.decode())
            assert (entry.holder, entry.lease_until) == (parts[HOLDER], int(parts[LEASE_UNTIL]))
            assert entry.kill_by == int(parts[KILL_BY])
            if record_id in record_ids or is_lost(parts[HOLDER]):
                parts[LEASE_UNTIL] = str(now_ms)
                parts[KILL_BY] = str(now_ms + (self.grace_ms or int(parts[GRACE_MS])))
                owner = (keys.record(record_id), keys.effects(partition_of(record_id)))
                changed = (f"e:{suffix}", line, " ".join(parts), now_ms, member)
                store.eval(EXPIRE, len(owner), *owner, *changed)

    def reaches(self, record_id: str, *states: str, within_s: float = 120) -> Record:
        """Wait until a record is in one of these states, and return it."""

        def record_in_state() -> Record | None:
            record = self.found(record_id)
            return record if record and record.state in states else None

        try:
            found: Record = self.sees(record_in_state, what=" or ".join(states), within_s=within_s)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.story(record_id)}") from None
        return found

    def found(self, record_id: str) -> Record | None:
        """Return a record, or None if it does not exist."""
        try:
            return self.client.show(record_id)
        except UnknownRecordError:
            return None

    def ends(self, *record_ids: str, within_s: float = 120) -> list[Record]:
        """Wait until records have ended, check each against its log, and return them."""
        waiting = list(record_ids)

        def all_ended() -> bool:
            while waiting:
                record = self.found(waiting[-1])
                if record is None or not self._ended(record):
                    return False
                waiting.pop()
            return True

        try:
            self.sees(all_ended, what="every record has ended", within_s=within_s)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.story(waiting[-1])}") from None
        return [self.checked(record_id) for record_id in record_ids]

    def checked(self, record_id: str) -> Record:
        """Return a record after a check that it equals the fold of its log."""
        record = self.client.show(record_id)
        machine = self.client.dispatch.lifecycle.machine(record.machine)
        folded = fold(machine, self.client.history(record_id))
        assert (folded.state, folded.version, folded.data) == (
            record.state,
            record.version,
            record.data,
        )
        return record

    def lease_is_renewed(self, record_id: str) -> None:
        """Wait until each lease of a record's effects has been renewed twice from now on.

        After that its holder has read every order that was given before.
        """
        seen = defaultdict[str, set[int]](set)

        def often() -> bool:
            leased = [one for one in self.client.show(record_id).entries if one.lease_until]
            for one in leased:
                seen[one.name].add(one.lease_until)
            return bool(leased) and all(len(seen[one.name]) > 2 for one in leased)

        self.sees(often, what=f"the lease of {record_id} is renewed")

    def comes_to_rest(self, record_id: str) -> None:
        """Wait until a record has no effect left."""
        self.sees(lambda: not self.client.show(record_id).entries, what=f"{record_id} is at rest")

    def killed(self, *record_ids: str) -> bool:
        """Whether each of these records has killed a worker at the point that its id names."""
        return all(list(self.folder.glob(f"once-{record_id}-*")) for record_id in record_ids)

    def events(self, record_id: str) -> list[Event]:
        """Return the events of a record."""
        return [line for line in self.client.history(record_id) if isinstance(line, Event)]

    def notes(self, record_id: str, kind: str) -> list[Note]:
        """Return the notes of one kind in a record's log."""
        lines = self.client.history(record_id)
        return [line for line in lines if isinstance(line, Note) and line.kind == kind]

    def story(self, record_id: str) -> str:
        """Return a record's log as text, for a test that failed."""
        record = self.found(record_id)
        if record is None:
            return f"{record_id} does not exist"
        lines = [f"{record.id} is {record.state} v{record.version}, with {record.entries}"]
        for line in self.client.history(record_id):
            if isinstance(line, Event):
                lines.append(f"  {line.version} {line.trigger} -> {line.target} by {line.cause}")
            else:
                lines.append(f"  {line.position} {line.kind} {json.dumps(line.detail)[:160]}")
        return "\n".join(lines)

    def close(self, *, failed: bool) -> None:
        """End every process; after a failure print the ends of their logs."""
        for process in self.processes:
            kill_group(process.id, process.started)
        until(lambda: not any(each.alive for each in self.processes), what="every process is gone")
        # A supervisor that waits between two tasks would outlive its test.
        home = str(self.folder / "home").encode()
        for process_id in processes(lambda _, command: home in command):
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        if failed:
            self.print_logs()

    def print_logs(self) -> None:
        """Print the ends of the logs of all processes, for a test that failed."""
        for process in self.processes:
            sys.stdout.write(f"--- {process.name}\n{process.output[-4000:]}\n")

    def _replace_dead_workers(self) -> None:
        alive = sum(each.alive and each.name.startswith("w") for each in self.processes)
        for _ in range(alive, self.workers_wanted):
            self.worker(concurrency=1, ready=False)

    def _ended(self, record: Record) -> bool:
        machine = self.client.dispatch.lifecycle.machine(record.machine)
        return isinstance(machine.stage(record.state), Terminal)

    def _start(
        self,
        name: str,
        argv: Sequence[str],
        variables: Mapping[str, str],
        app: str = "tests.end_to_end.engine.app",
    ) -> Process:
        log = self.folder / f"{name}.log"
        environment = {**self.environment, **variables}
        command = ["-q", "-A", app, *argv]  # without the banner
        process = Process(name, self.preloaded.start(command, environment, log), log)
        self.processes.append(process)
        return process


def is_lost(holder: str) -> bool:
    """Whether the process that holds a lease is gone: a worker, or a supervisor that it started."""
    # The host and the id of the worker, six random letters, and the id of the supervisor.
    _, *ids = holder.split(":")
    process_id = (ids[2:] or ids or [""])[0]
    return process_id.isdigit() and not is_alive(int(process_id))


def written(path: Path) -> str:
    """Return the text of a file that a command writes, or nothing if it has not done so yet."""
    return path.read_text().strip() if path.exists() else ""


def thread(
    capability: str = "jot",
    *,
    title: str = "a matter",
    policy: Any = "end_to_end",
    source: str = "test",
    **parameters: Any,
) -> dict[str, Any]:
    """Return a thread with its proposals, so that no model is needed."""
    action = {
        "kind": "standard",
        "capability": capability,
        "parameters": parameters,
        "irreversibility": "low",
        "regret_potential": "low",
        "risk_amplifier": False,
    }
    return {
        "inciting": {"source": source, "title": title},
        "policy": policy,
        "given": {"intent": title, "item_ids": [], "action": action},
    }


def overlaps(spans: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield each pair of runs of one effect that overlapped in time."""
    ordered = sorted(spans, key=lambda span: span["started"])
    for first, second in itertools.pairwise(ordered):
        if second["started"] < first["ended"]:
            yield first, second
