"""A workspace for tests of runs: plans as text, agents that wait for a word, and what is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import dedent, indent
from typing import Any
from uuid import uuid4

from interlock.kernel.event import Note
from interlock.kernel.machines.runs.codon.changes import counters
from interlock.kernel.machines.runs.events import run_event
from interlock.kernel.record import Record
from interlock.kernel.table import Terminal
from interlock.workers.client import Client
from interlock.workers.runs.client import Heard, Receipt, Runs
from interlock.workers.runs.start import runs_of, workspace_id
from tests.end_to_end.deployment import Deployment, Preloaded
from tests.processes import marked

# Every command of a plan knows these words: bash reads them before anything else.
WORDS = """\
say() { printf '%s\\n' "$1" >&"$INTERLOCK_REPORT_FD"; }
did() { echo "${1:-$INTERLOCK_CODON}" >> done.txt; }
session() { say "{\\"type\\": \\"session\\", \\"id\\": \\"${1:-s-$INTERLOCK_CODON}\\"}"; }
cost() { say "{\\"type\\": \\"usage\\", \\"cost_micro\\": $1, \\"tokens_out\\": ${2:-0}}"; }
message() { say "{\\"type\\": \\"message\\", \\"text\\": \\"$1\\"}"; }
costs() { say "{\\"type\\": \\"$1\\", \\"cost_micro\\": $2}"; }
result() { say '{"type": "result"}'; }
failed() { say "{\\"type\\": \\"failed\\", \\"error\\": \\"$1\\"${2:+, \\"retry_after_s\\": $2}}"; }
here() { echo "$$" >> "$CUES/$1.here"; }
hold() { here "$1"; while [ ! -e "$CUES/$1.go" ]; do read -rt 0.05 _ <> "$CUES/never"; done; true; }
never() { hold never; }
"""
# What bash reads before it looks at a sentinel's command: there a codon is held at its start.
CHECKS = """\
cues=$PWD/../cues
if [ -e "$cues/starting.wait" ]; then
  echo $$ >> "$cues/starting.here"
  while [ ! -e "$cues/starting.go" ]; do read -rt 0.05 _ <> "$cues/never"; done
fi
"""
# A codon in each live state, until its cue.
STATES = {
    "preparing": (
        "{codon: one, rig: [{command: {run: hold rig}}], command: did, on_failure: ignore}"
    ),
    "starting": "{codon: one, sentinels: [eye], command: did, on_failure: ignore}",
    "initializing": (
        "{codon: one, speaks: interlock, on_failure: ignore, "
        "command: 'did; [ -e $CUES/agent.go ] || hold agent; session; cost 3; result'}"
    ),
    "running": (
        "{codon: one, on_failure: ignore, command: 'did; (setsid bash -c never &); hold agent'}"
    ),
    "completing_sentinels": (
        "{codon: one, sentinels: [slow], speaks: interlock, on_failure: ignore, "
        "command: 'session; cost 3; did; [ -e $CUES/sentinel.go ] && result'}"
    ),
}
CUE_OF = {
    "preparing": "rig",
    "starting": "starting",
    "initializing": "agent",
    "running": "agent",
    "completing_sentinels": "sentinel",
}
HELD = """
sentinels:
  eye: {on: [codon_started], command: "true"}
  slow: {on: [codon_transitioned], command: "true; hold sentinel"}
codons:
  - %s
  - {codon: two, command: did}
"""


@dataclass
class Yard:
    """One folder that runs work in, in a deployment."""

    deployment: Deployment
    folder: Path
    name: str = "work"

    def __post_init__(self) -> None:
        self.workspace, self.cues = self.folder / self.name, self.folder / "cues"
        for folder in (self.workspace, self.cues):
            folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "words.sh").write_text(WORDS)
        if not (self.cues / "never").exists():
            os.mkfifo(self.cues / "never")

    @cached_property
    def runs(self) -> Runs:
        """The client."""
        return Runs(self.deployment.client)

    def runs_of(self, actor: str) -> Runs:
        """Return the client of somebody else."""
        return Runs(Client(self.deployment.client.settings, actor=actor))

    # --- to begin ---------------------------------------------------------------------------------

    def plan(self, text: str) -> Path:
        """Write a plan whose commands know our words; `text` begins at its codons, or before."""
        path = self.folder / "plan.yaml"
        own = {"BASH_ENV": str(self.folder / "words.sh"), "CUES": str(self.cues)}
        lines = [f"  {name}: {value}" for name, value in own.items()]
        head = "\n".join(["plan: yard", "environment:", *lines])
        path.write_text(f"{head}\n{dedent(text).strip()}\n")
        return path

    def start(self, text: str) -> Record:
        """Start a run of a plan, and return it."""
        return self.runs.start(self.plan(text), self.workspace)

    def does(self, text: str, *states: str) -> Record:
        """Start a run, and return it when it has ended as it should."""
        return self.ends(self.start(text), *states)

    # --- to hold and to let go --------------------------------------------------------------------

    def meets(self, cue: str, times: int = 1) -> int:
        """Wait until a command came to a cue so often, and return its process."""
        place = self.cues / f"{cue}.here"

        def came() -> list[str]:
            lines = place.read_text().split() if place.exists() else []
            return lines if len(lines) >= times else []

        return int(self.sees(came, what=f"{cue} is met")[times - 1])

    def go(self, cue: str) -> None:
        """Let whoever waits for a cue go on, now and later."""
        (self.cues / f"{cue}.go").touch()

    def sees(self, condition: Any, *, what: str, within_s: float = 30) -> Any:
        """Wait for a condition; tell the story of the last run where it does not come."""
        try:
            return self.deployment.sees(condition, what=what, within_s=within_s)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.story()}") from None

    # --- what became of it ------------------------------------------------------------------------

    @property
    def opened(self) -> Record:
        """The workspace's record."""
        return self.runs.workspace(self.workspace)

    @property
    def last(self) -> Record:
        """The newest run."""
        return self.runs.last(self.opened)

    def every_run(self) -> list[Record]:
        """Return all runs."""
        return runs_of(self.deployment.client.dispatch, self.opened.id)

    def codons(self, run: str = "") -> list[Record]:
        """Return the executions of a run, or of the last one."""
        return self.runs.codons(run or self.last.id)

    def codon(self, number: int = 1, run: str = "") -> Record:
        """Return an execution by its number."""
        return self.codons(run)[number - 1]

    def shape(self, run: str = "") -> list[str]:
        """Return what each execution came to, as `name state`."""
        return [f"{one.data['codon_id']} {one.state}" for one in self.codons(run)]

    def stands(self, state: str, number: int = 1, run: str = "") -> Record:
        """Wait until an execution stands in a state, and return it."""

        def there() -> Record | None:
            found = self.codons(run)[number - 1 : number]
            return found[0] if found and found[0].state == state else None

        found: Record = self.sees(there, what=f"codon {number} is {state}")
        return found

    def ends(self, run: Record, *states: str, within_s: float = 60) -> Record:
        """Wait until a run and all it owed has ended; check it and its codons against logs."""

        def over() -> bool:
            record = self.deployment.client.show(run.id)
            return record.state != "running" and not record.entries

        self.sees(over, what=f"{run.id} has ended", within_s=within_s)
        record = self.deployment.checked(run.id)
        assert record.state in (states or ("completed",)), self.story()
        for one in self.codons(run.id):
            self.deployment.settles(one.id)
            self.deployment.checked(one.id)
        return record

    def did(self) -> list[str]:
        """Return what the agents wrote of what they did."""
        place = self.workspace / "done.txt"
        return place.read_text().split() if place.exists() else []

    def heard(self) -> list[Heard]:
        """Return every event that was applied, in order."""
        found: list[Heard] = []
        while page := self.runs.heard(self.opened, found[-1].position if found else "0-0"):
            found += page
        return [one for one in found if one.event]

    def types(self) -> list[str]:
        """Return the types of all events, in order."""
        return [one.event["type"] for one in self.heard()]

    def triggers(self, record_id: str) -> list[tuple[str, str]]:
        """Return what moved a record, and by whom."""
        return [(line.trigger, line.cause.actor) for line in self.deployment.events(record_id)]

    def notes(self, record_id: str, kind: str) -> list[Note]:
        """Return the notes of one kind in a record's log."""
        return self.deployment.notes(record_id, kind)

    def files(self) -> dict[str, bytes]:
        """Return every file of the workspace but the checkpoints themselves."""
        found = {path.relative_to(self.workspace): path for path in self.workspace.rglob("*")}
        return {
            str(name): path.read_bytes()
            for name, path in found.items()
            if name.parts[0] != ".interlock" and path.is_file()
        }

    # --- events from outside ----------------------------------------------------------------------

    def event(self, kind: str, *, codon: str = "", run: str = "", **data: Any) -> Any:
        """Return a published event about the last run, or another."""
        about = {"run_id": run or self.last.id, **({"codon_id": codon} if codon else {})}
        return run_event({"type": kind, "data": {**about, **data}})

    def tells(self, kind: str, *, op_id: str = "", **said: Any) -> Receipt:
        """Tell an event of somebody else's, and return the receipt."""
        told = self.event(kind, **said)
        return self.runs.transition(self.opened, told, sender="outside", op_id=op_id)

    def answer(self, receipt: Receipt) -> Note:
        """Wait until an event is dealt with, and return what became of it."""
        return self.runs.wait_for_pending(receipt)

    # --- what holds at any time -------------------------------------------------------------------

    def costs_hold(self) -> dict[str, int]:
        """Compare what the counters say with the fold of all logs, and return it."""
        machines = self.deployment.client.dispatch.machines
        runs = self.every_run()
        each: dict[str, dict[str, int]] = {}
        for run in runs:
            folded = [counters(self.deployment.checked(one.id).data) for one in self.codons(run.id)]
            each[run.id] = {name: sum(one[name] for one in folded) for name in ("cost", "spent")}
            counted = {name: run.counters.get(f"tree.{name}", 0) for name in ("cost", "spent")}
            assert counted == each[run.id], f"{run.id}\n{self.story()}"
        assert all(isinstance(machines["run"].stage(one.state), Terminal) for one in runs[:-1])
        found = self.runs.costs(self.workspace)
        for number in range(1, len(runs) + 1):
            since = self.runs.costs(self.workspace, since=number)
            newer = [each[run.id] for run in runs[number - 1 :]]
            assert since["since"] == sum(one["cost"] for one in newer)
            assert since["since_spent"] == sum(one["spent"] for one in newer)
        assert found["total"] == sum(one["cost"] for one in each.values())
        assert found["total_spent"] == sum(one["spent"] for one in each.values())
        assert found["run"] == each[runs[-1].id]["cost"]
        return found

    def is_quiet(self) -> bool:
        """Whether no process of this yard is left, neither an agent's nor a conductor's."""
        return not self.processes() and not self.conductors()

    def processes(self) -> dict[int, str]:
        """Return every live process that a plan of this yard has started."""
        return marked("CUES", str(self.cues))

    def conductors(self) -> list[int]:
        """Return the live conductors of this yard."""
        of = workspace_id(self.workspace, self.deployment.client.settings.host)
        work_folder = f"/runs/{of}/"
        mine = marked("DEPLOYMENT_FOLDER", str(self.deployment.folder))
        return [
            pid
            for pid, words in mine.items()
            if "interlock.workers.runs.supervisor" in words and work_folder in words
        ]

    def rests(self) -> None:
        """Check that nothing is left: no process, and nobody who holds the workspace."""
        self.sees(self.is_quiet, what="no process is left")
        views = self.deployment.client.dispatch.views
        assert views.holds(self.opened.id) == {}

    # --- to kill ----------------------------------------------------------------------------------

    def conductor(self, run: str = "") -> int:
        """Wait until a run has a conductor, and return its process."""
        of = run or self.last.id

        def held() -> int:
            entries = self.deployment.client.show(of).entries
            pids = [one.holder.rpartition(":")[2] for one in entries if one.name == "conductor"]
            found = [int(pid) for pid in pids if pid.isdigit() and int(pid) in self.conductors()]
            return found[0] if found else 0

        return int(self.sees(held, what=f"{of} has a conductor"))

    def renewed(self, record_id: str) -> None:
        """Wait until whoever holds a record's work has asked for orders, and was answered."""
        show, seen = self.deployment.client.show, set[int]()

        def asked() -> bool:
            seen.update(one.lease_until for one in show(record_id).entries if one.lease_until)
            return len(seen) > 2

        self.sees(asked, what=f"the lease of {record_id} is renewed")

    def kill_conductor(self) -> None:
        """Kill the conductor of the last run, without a warning."""
        kill(self.conductor())

    def crashes(self, run: Record) -> Record:
        """Wait until a run is crashed; check that this happened once, and left no live codon."""
        ended = self.ends(run, "crashed")
        told = [one for one in self.triggers(run.id) if one[0] == "crash"]
        assert told == [("crash", "orphans")], self.story()
        assert [one.event["type"] for one in self.heard() if one.record == run.id].count(
            "RunCrashed"
        ) == 1
        assert all(one.state in ("completed", "failed", "skipped") for one in self.codons(run.id))
        return ended

    def story(self) -> str:
        """Tell all that happened here, for a test that failed."""
        told = []
        for run in self.every_run():
            told += [self.deployment.story(run.id), f"  ended: {run.data.get('ended')}"]
            told += [indent(self.deployment.story(one.id), "  ") for one in self.codons(run.id)]
            told += [f"    {one.data.get('failure_reason')}" for one in self.codons(run.id)]
            log = self.deployment.folder / "home" / "runs" / run.id / "supervisor.log"
            told.append(log.read_text()[-3_000:] if log.exists() else "no conductor took it up")
        return "\n".join(told)

    def close(self) -> None:
        """End what a failed test left."""
        for pid in (*self.conductors(), *self.processes()):
            kill(pid)


def kill(*pids: int, number: int = signal.SIGKILL) -> None:
    """Signal processes, where they are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def holding(folder: Path) -> dict[str, str]:
    """Return the variables of a deployment in which a sentinel's check can be held."""
    (folder / "checks.sh").write_text(CHECKS)
    # A run that nobody kills shall not lapse because the machine is busy.
    return {"BASH_ENV": str(folder / "checks.sh"), "INTERLOCK_LEASE_S": "4"}


@contextmanager
def street(preloaded: Preloaded, store_url: str, folder: Path) -> Iterator[Deployment]:
    """Yield a deployment that tests share, in which a sentinel's check can be held."""
    deployment = Deployment(preloaded, folder, store_url, f"t{uuid4().hex[:12]}", holding(folder))
    try:
        yield deployment.full(concurrency=12)
    finally:
        deployment.close(failed=False)


@contextmanager
def yards(shared: Deployment, folder: Path, failed: Callable[[], bool]) -> Iterator[NewYard]:
    """Yield what makes workspaces in a shared deployment, with a client of this test's own.

    Afterwards nothing is left in them, and all that they cost adds up.
    """
    deployment = Deployment(shared.preloaded, shared.folder, shared.store_url, shared.prefix)
    made: list[Yard] = []

    def build(name: str) -> Yard:
        made.append(Yard(deployment, folder / name))
        return made[-1]

    yield build
    for yard in made:
        if not failed():
            yard.rests()
            yard.costs_hold()
        yard.close()


NewYard = Callable[[str], Yard]


def each_state(new_yard: NewYard) -> dict[str, Yard]:
    """Return a run for each live state, whose first codon is held there."""
    found = {state: new_yard(state) for state in STATES}
    (found["starting"].cues / "starting.wait").touch()
    for state, yard in found.items():
        yard.start(HELD % STATES[state])
    for state, yard in found.items():
        yard.stands(state)
        yard.meets(CUE_OF[state])
    return found
