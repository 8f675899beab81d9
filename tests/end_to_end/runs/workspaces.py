"""Workspaces for tests of runs: plans as text, agents that wait for cues, and final checks."""

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

from interlock.kernel.event import Note
from interlock.kernel.record import Record
from interlock.kernel.table import Terminal
from interlock.systems.runs.client import AppliedEvent, Receipt, Runs
from interlock.systems.runs.machines.codon.changes import counters
from interlock.systems.runs.machines.events import run_event
from interlock.systems.runs.paths import workspace_id
from interlock.systems.runs.start import runs_of
from interlock.workers.client import Client
from tests.end_to_end.deployment import Deployment
from tests.processes import is_alive, marked, processes

# Functions that every command of a plan can call: bash reads them before the command.
FUNCTIONS = """\
say() { printf '%s\\n' "$1" >&"$INTERLOCK_REPORT_FD"; }
did() { echo "${1:-$INTERLOCK_CODON}" >> done.txt; }
session() { say "{\\"type\\": \\"session\\", \\"id\\": \\"${1:-s-$INTERLOCK_CODON}\\"}"; }
cost() { say "{\\"type\\": \\"usage\\", \\"cost_micro\\": $1, \\"tokens_out\\": ${2:-0}}"; }
message() { say "{\\"type\\": \\"message\\", \\"text\\": \\"$1\\"}"; }
costs() { say "{\\"type\\": \\"$1\\", \\"cost_micro\\": $2}"; }
result() { say '{"type": "result"}'; }
failed() { say "{\\"type\\": \\"failed\\", \\"error\\": \\"$1\\"${2:+, \\"retry_after_s\\": $2}}"; }
arrive() { echo "$$" >> "$CUES/$1.arrived"; }
hold() {
  arrive "$1"; while [ ! -e "$CUES/$1.go" ]; do read -rt 0.05 _ <> "$CUES/never"; done; true
}
never() { hold never; }
"""
# Bash reads this before it checks a sentinel's command: it can hold a codon in `starting`.
CHECKS = """\
cues=$PWD/../cues
if [ -e "$cues/starting.wait" ]; then
  echo $$ >> "$cues/starting.arrived"
  while [ ! -e "$cues/starting.go" ]; do read -rt 0.05 _ <> "$cues/never"; done
fi
"""
# A codon that stays in each live state until its cue is released.
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
class RunWorkspace:
    """A folder in which runs work, in a deployment.

    `folder` is the workspace; it is in `root`, beside the plan and the cues.
    """

    deployment: Deployment
    root: Path
    name: str = "work"

    def __post_init__(self) -> None:
        self.folder, self.cues = self.root / self.name, self.root / "cues"
        for folder in (self.folder, self.cues):
            folder.mkdir(parents=True, exist_ok=True)
        (self.root / "functions.sh").write_text(FUNCTIONS)
        if not (self.cues / "never").exists():
            os.mkfifo(self.cues / "never")

    @cached_property
    def runs(self) -> Runs:
        """The client of runs."""
        return Runs(self.deployment.client)

    def runs_as(self, actor: str) -> Runs:
        """Return a client of runs with another actor."""
        return Runs(Client(self.deployment.client.settings, actor=actor))

    def plan(self, text: str) -> Path:
        """Write a plan whose commands can call our functions; `text` is the rest of the plan."""
        path = self.root / "plan.yaml"
        variables = {"BASH_ENV": str(self.root / "functions.sh"), "CUES": str(self.cues)}
        lines = [f"  {name}: {value}" for name, value in variables.items()]
        head = "\n".join(["plan: test", "environment:", *lines])
        path.write_text(f"{head}\n{dedent(text).strip()}\n")
        return path

    def start(self, text: str) -> Record:
        """Start a run of a plan, and return it."""
        return self.runs.start(self.plan(text), self.folder)

    def run_to_end(self, text: str, *states: str) -> Record:
        """Start a run, and return it once it has ended in one of the states."""
        return self.wait_for_end(self.start(text), *states)

    def wait_for_cue(self, cue: str, times: int = 1) -> int:
        """Wait until commands have reached a cue this often; return the process of the last one."""
        file = self.cues / f"{cue}.arrived"

        def arrived() -> list[str]:
            lines = file.read_text().split() if file.exists() else []
            return lines if len(lines) >= times else []

        return int(self.wait_for(arrived, what=f"{cue} is reached")[times - 1])

    def release(self, cue: str) -> None:
        """Let the commands at a cue go on, now and later."""
        (self.cues / f"{cue}.go").touch()

    def wait_for(self, condition: Any, *, what: str, within_s: float = 120) -> Any:
        """Wait for a condition; report all runs where it does not come true."""
        try:
            return self.deployment.sees(condition, what=what, within_s=within_s)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.story()}") from None

    @property
    def record(self) -> Record:
        """The workspace's record."""
        return self.runs.workspace(self.folder)

    @property
    def last(self) -> Record:
        """The newest run."""
        return self.runs.last(self.record)

    def all_runs(self) -> list[Record]:
        """Return all runs."""
        return runs_of(self.deployment.client.records, self.record.id)

    def codons(self, run: str = "") -> list[Record]:
        """Return the executions of a run, or of the last one."""
        return self.runs.codons(run or self.last.id)

    def codon(self, number: int = 1, run: str = "") -> Record:
        """Return an execution by its number."""
        return self.codons(run)[number - 1]

    def codon_states(self, run: str = "") -> list[str]:
        """Return the state of each execution, as `name state`."""
        return [f"{one.data['codon_id']} {one.state}" for one in self.codons(run)]

    def wait_for_state(self, state: str, number: int = 1, run: str = "") -> Record:
        """Wait until an execution is in a state, and return it."""

        def reached() -> Record | None:
            found = self.codons(run)[number - 1 : number]
            return found[0] if found and found[0].state == state else None

        found: Record = self.wait_for(reached, what=f"codon {number} is {state}")
        return found

    def wait_for_end(self, run: Record, *states: str, within_s: float = 120) -> Record:
        """Wait until a run and its effects have ended; check its records against their logs."""

        def over() -> bool:
            record = self.deployment.client.show(run.id)
            return record.state != "running" and not record.entries

        self.wait_for(over, what=f"{run.id} has ended", within_s=within_s)
        record = self.deployment.checked(run.id)
        assert record.state in (states or ("completed",)), self.story()
        for one in self.codons(run.id):
            self.deployment.comes_to_rest(one.id)
            self.deployment.checked(one.id)
        return record

    def done(self) -> list[str]:
        """Return the lines that agents wrote about their work."""
        file = self.folder / "done.txt"
        return file.read_text().split() if file.exists() else []

    def applied_events(self) -> list[AppliedEvent]:
        """Return every event that was applied, in order."""
        found: list[AppliedEvent] = []
        while page := self.runs.events_after(self.record, found[-1].position if found else "0-0"):
            found += page
        return [one for one in found if one.event]

    def types(self) -> list[str]:
        """Return the types of all events, in order."""
        return [one.event["type"] for one in self.applied_events()]

    def triggers(self, record_id: str) -> list[tuple[str, str]]:
        """Return the triggers of a record's log, each with its actor."""
        return [(line.trigger, line.cause.actor) for line in self.deployment.events(record_id)]

    def notes(self, record_id: str, kind: str) -> list[Note]:
        """Return the notes of one kind in a record's log."""
        return self.deployment.notes(record_id, kind)

    def files(self) -> dict[str, bytes]:
        """Return every file of the workspace but the checkpoints themselves."""
        found = {path.relative_to(self.folder): path for path in self.folder.rglob("*")}
        return {
            str(name): path.read_bytes()
            for name, path in found.items()
            if name.parts[0] != ".interlock" and path.is_file()
        }

    def event(self, kind: str, *, codon: str = "", run: str = "", **data: Any) -> Any:
        """Return a published event about the last run, or another."""
        about = {"run_id": run or self.last.id, **({"codon_id": codon} if codon else {})}
        return run_event({"type": kind, "data": {**about, **data}})

    def send_event(self, kind: str, *, op_id: str = "", **data: Any) -> Receipt:
        """Send an event from outside, and return its receipt."""
        event = self.event(kind, **data)
        return self.runs.transition(self.record, event, sender="outside", op_id=op_id)

    def wait_for_answer(self, receipt: Receipt) -> Note:
        """Wait until an event is answered, and return the answer."""
        self.wait_for(lambda: self.runs.answer(receipt), what="the event is answered")
        return self.runs.wait_for_pending(receipt)

    def check_costs(self) -> dict[str, int]:
        """Compare the counters with the sums of all logs, and return them."""
        machines = self.deployment.client.dispatch.machines
        runs = self.all_runs()
        each: dict[str, dict[str, int]] = {}
        for run in runs:
            folded = [counters(self.deployment.checked(one.id).data) for one in self.codons(run.id)]
            each[run.id] = {name: sum(one[name] for one in folded) for name in ("cost", "spent")}
            counted = {name: run.counters.get(f"tree.{name}", 0) for name in ("cost", "spent")}
            assert counted == each[run.id], f"{run.id}\n{self.story()}"
        assert all(isinstance(machines["run"].stage(one.state), Terminal) for one in runs[:-1])
        found = self.runs.costs(self.folder)
        for number in range(1, len(runs) + 1):
            since = self.runs.costs(self.folder, since=number)
            newer = [each[run.id] for run in runs[number - 1 :]]
            assert since["since"] == sum(one["cost"] for one in newer)
            assert since["since_spent"] == sum(one["spent"] for one in newer)
        assert found["total"] == sum(one["cost"] for one in each.values())
        assert found["total_spent"] == sum(one["spent"] for one in each.values())
        assert found["run"] == each[runs[-1].id]["cost"]
        return found

    def has_no_process(self) -> bool:
        """Return whether no process is left, neither an agent's nor a supervisor's."""
        return not self.processes() and not self.supervisors()

    def processes(self) -> dict[int, str]:
        """Return every live process that a plan of this workspace started."""
        return marked("CUES", str(self.cues))

    def supervisors(self) -> list[int]:
        """Return the live supervisors of this workspace's runs."""
        name = workspace_id(self.folder, self.deployment.client.settings.host)
        program, work_folder = b"interlock.systems.runs.supervisor", f"/runs/{name}/".encode()

        def supervises(pid: int, command: bytes) -> bool:
            return program in command and work_folder in command and is_alive(pid)

        return processes(supervises)

    def check_nothing_left(self) -> None:
        """Check that nothing is left: no process, and no holder of the workspace."""
        self.wait_for(self.has_no_process, what="no process is left")
        views = self.deployment.client.dispatch.views
        assert views.holds(self.record.id) == {}

    def supervisor(self, run: str = "") -> int:
        """Wait until a run has a supervisor, and return its process."""
        run_id = run or self.last.id

        def held() -> int:
            entries = self.deployment.client.show(run_id).entries
            pids = [one.holder.rpartition(":")[2] for one in entries if one.name == "launch"]
            found = [int(pid) for pid in pids if pid.isdigit() and int(pid) in self.supervisors()]
            return found[0] if found else 0

        return int(self.wait_for(held, what=f"{run_id} has a supervisor"))

    def stop_by_force(self, **options: Any) -> Record:
        """Stop the last run by force, let the cleanup fail its codon, and return the run.

        The supervisor is stopped meanwhile: otherwise it could be the first to fail the codon.
        """
        supervisor = self.supervisor()
        os.kill(supervisor, signal.SIGSTOP)
        run = self.runs.stop(self.folder, force=True, **options)
        self.wait_for_state("failed")
        os.kill(supervisor, signal.SIGCONT)
        return run

    def kill_supervisor(self) -> None:
        """Kill the supervisor of the last run."""
        kill(self.supervisor())

    def wait_for_crash(self, run: Record) -> Record:
        """Wait until a run has crashed; check that it crashed once, and left no live codon."""
        ended = self.wait_for_end(run, "crashed")
        crashes = [one for one in self.triggers(run.id) if one[0] == "crash"]
        assert crashes == [("crash", "orphans")], self.story()
        assert [one.event["type"] for one in self.applied_events() if one.record == run.id].count(
            "RunCrashed"
        ) == 1
        assert all(one.state in ("completed", "failed", "skipped") for one in self.codons(run.id))
        return ended

    def story(self) -> str:
        """Return everything that happened here, for the message of a test that failed."""
        parts = []
        for run in self.all_runs():
            parts += [self.deployment.story(run.id), f"  ended: {run.data.get('ended')}"]
            parts += [indent(self.deployment.story(one.id), "  ") for one in self.codons(run.id)]
            parts += [f"    {one.data.get('failure_reason')}" for one in self.codons(run.id)]
            log = self.deployment.folder / "home" / "runs" / run.id / "supervisor.log"
            parts.append(log.read_text()[-3_000:] if log.exists() else "no supervisor was launched")
        return "\n".join(parts)

    def close(self) -> None:
        """Kill the processes that a failed test left."""
        for pid in (*self.supervisors(), *self.processes()):
            kill(pid)


def kill(*pids: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to processes that are still alive."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def holding(folder: Path) -> dict[str, str]:
    """Return the variables of a deployment in which a codon can be held in `starting`."""
    (folder / "checks.sh").write_text(CHECKS)
    return {"BASH_ENV": str(folder / "checks.sh"), "INTERLOCK_PASS_VARIABLES": "BASH_ENV"}


@contextmanager
def workspaces(
    deployment: Deployment, folder: Path, failed: Callable[[], bool]
) -> Iterator[NewWorkspace]:
    """Yield a function that makes workspaces in a deployment.

    Afterwards no process is left in them, and their costs add up.
    """
    made: list[RunWorkspace] = []

    def build(name: str) -> RunWorkspace:
        made.append(RunWorkspace(deployment, folder / name))
        return made[-1]

    yield build
    for workspace in made:
        if not failed():
            workspace.check_nothing_left()
            workspace.check_costs()
        workspace.close()


NewWorkspace = Callable[[str], RunWorkspace]


def each_state(new_workspace: NewWorkspace) -> dict[str, RunWorkspace]:
    """Return a workspace for each live state, with a run whose first codon is held in it."""
    found = {state: new_workspace(state) for state in STATES}
    (found["starting"].cues / "starting.wait").touch()
    for state, workspace in found.items():
        workspace.start(HELD % STATES[state])
    for state, workspace in found.items():
        workspace.wait_for_state(state)
        workspace.wait_for_cue(CUE_OF[state])
    return found
