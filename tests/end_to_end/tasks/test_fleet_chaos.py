"""Many agents on one repository, while processes are killed at random or workers are redeployed.

Thirty tasks or a few more, four agents at once. Each task ends merged, or with a reason; nothing
is left behind.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.record import Record
from interlock.workers.processes.agent.containment import LABEL_VARIABLE
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, Process, overlaps
from tests.end_to_end.engine.preloaded import OWN_FORK_SERVER
from tests.end_to_end.tasks.coding import AGENTS, git, make_repository, submit, task, trees
from tests.processes import PROC, marked, parent_of, processes

pytestmark = [pytest.mark.proof, pytest.mark.timeout(1_500)]

TASKS = 30
FURTHER_TASKS = 4
SEED = "FLEET_CHAOS_SEED"
FLEET = AGENTS | {"INTERLOCK_AGENTS_MAX": "4", OWN_FORK_SERVER: "1"}
MACHINES = ("task", "agent", "turn", "identity")
ENDS = {"agent": "dead", "turn": "reaped"}
WITHIN_S = 900.0
CHECK = 'for f in n*.txt; do test "$(cat "$f")" = "${f%.txt}" || exit 1; done\n'

# An agent first writes a wrong text: if it is killed before it writes the right one, the
# verification fails. Each stamp shows that a process of this claim was at work at that time. The
# kind `stranger` starts a process in its own session, which runs for a minute.
AGENT = r"""
name=$1 kind=$2 stamps=$3
say() { echo "$INTERLOCK_TASK_ID $INTERLOCK_BRANCH $EPOCHREALTIME $BASHPID" >> "$stamps"; }
stay() { for ((i = 0; i < $1; i++)); do say; sleep 0.1; done; }
report() { echo "$1" >&"$INTERLOCK_REPORT_FD"; }
export -f say stay
say
case $kind in
stranger) stamps=$stamps setsid bash -c "trap '' TERM; stay 600; : $MARKER" & ;;
reports)
  report '{"type": "ready"}'
  report '{"type": "tool_started", "tool": "bash", "id": "1"}' ;;
esac
echo half > "$name.txt"
stay $((8 + RANDOM % 16))
echo "$name" > "$name.txt"
stay $((2 + RANDOM % 4))
case $kind in
reports)
  report '{"type": "tool_completed", "tool": "bash", "id": "1", "success": true}'
  report '{"type": "usage", "input_tokens": 7, "output_tokens": 3, "cost_micro": 11}' ;;
commits)
  git add "$name.txt" && git -c user.name=agent -c user.email=a@x commit -qm "by itself" ;;
esac
say
echo "wrote $name.txt"
"""
KINDS = ("plain", "stranger", "commits", "reports")


@dataclass
class Fleet:
    """A deployment, the repository of all its tasks, and the stamps of its agents."""

    deployment: Deployment
    repo: Path
    stamps: Path
    names: list[str] = field(default_factory=list)

    @property
    def label(self) -> tuple[str, str]:
        """The variable that every process of this deployment has in its environment."""
        return "DEPLOYMENT_FOLDER", str(self.deployment.folder)

    @property
    def command_part(self) -> bytes:
        """The text that every process of an agent has in its command line."""
        return str(self.stamps).encode()

    def hand_in(self, count: int = TASKS) -> None:
        """Submit so many further tasks, each for a file of its own."""
        program = self.stamps.with_name("agent.sh")
        program.write_text(AGENT)
        for n in range(len(self.names), len(self.names) + count):
            name, kind = f"n{n}", KINDS[n % len(KINDS)]
            command = f"MARKER={self.stamps} exec bash {program} {name} {kind} {self.stamps}"
            signals = [
                {"type": "file_contains", "value": f"{name}.txt :: {name}"},
                {"type": "test_passes", "value": "sh check.sh"},
            ]
            submit(
                self.deployment, name, task(self.repo, command, signals=signals, retry_delay_s=1)
            )
            self.names.append(name)

    def left(self) -> list[str]:
        """Return the tasks that are not over."""
        return [
            name for name in self.names if not is_over(self.deployment.client.show(f"b/{name}"))
        ]

    def records(self) -> dict[str, list[Record]]:
        """Return every record of this deployment, by machine."""
        client = self.deployment.client
        return {
            machine: [client.show(row.id) for row in client.list(machine=machine, limit=5_000)]
            for machine in MACHINES
        }

    def comes_to_rest(self) -> None:
        """Wait until every task is over, no record is open and no process runs."""
        self.deployment.sees(lambda: not self.left(), what="all tasks are over", within_s=WITHIN_S)
        try:
            self.deployment.sees(lambda: not self.open(), what="nothing is open", within_s=WITHIN_S)
        except AssertionError as late:
            stories = [self.deployment.story(task_id) for task_id in self.open()]
            raise AssertionError("\n".join([str(late), *stories])) from None
        self.deployment.sees(
            lambda: not self.running(), what=f"nothing runs: {self.running()}", within_s=180
        )

    def running(self) -> dict[int, str]:
        """Return the processes that workers started, without the fork servers."""
        found = marked(*self.label)
        return {
            pid: words
            for pid, words in found.items()
            if "interlock.workers.supervision.fork_server" not in words
        }

    def open(self) -> list[str]:
        """Return the records with unfinished effects, and agents and turns that have not ended."""
        return [
            record.id
            for machine, records in self.records().items()
            for record in records
            if record.entries or record.state != ENDS.get(machine, record.state)
        ]


def is_over(record: Record) -> bool:
    """Whether a task is closed, or waits for a person."""
    failed = record.state == "failed" and bool(record.data.get("given_up"))
    return failed or record.state in {"closed", "blocked", "cancelled"}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = make_repository(tmp_path / "repo")
    (folder / "check.sh").write_text(CHECK)
    (folder / "n.txt").write_text("n\n")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "add its test")
    return folder


@pytest.fixture
def fleet(
    new_deployment: NewDeployment, repo: Path, tmp_path: Path, lease_s: str
) -> Iterator[Fleet]:
    stamps = tmp_path / "stamps"
    stamps.touch()
    fleet = Fleet(new_deployment(**FLEET, INTERLOCK_LEASE_S=lease_s), repo, stamps)
    yield fleet
    for pid in marked(*fleet.label):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Killer:
    """Kills processes of a fleet, one after the other, chosen at random."""

    def __init__(self, fleet: Fleet, seed: str, wanted: Mapping[str, int]) -> None:
        self.fleet, self.random = fleet, random.Random(seed)
        self.wanted, self.done = Counter(wanted), Counter[str]()
        self.log: list[str] = []

    def run(self) -> None:
        """Kill until the wanted number of each kind is reached; hand in more tasks if need be."""
        while kinds := sorted((self.wanted - self.done).elements()):
            if not self.fleet.left():
                # A fast fleet is done with its tasks before the last process is killed.
                self.fleet.hand_in(FURTHER_TASKS)
            # A random pause between two kills; it waits for no condition.
            time.sleep(self.random.uniform(0.5, 3.0))
            kind = self.random.choice(kinds)
            if killed := self._kill(kind):
                self.done[kind] += 1
                self.log.append(f"{time.time():.3f} {kind} {killed}")
                sys.stdout.write(f"killed {self.log[-1]}\n")

    def _kill(self, kind: str) -> str:
        deployment = self.fleet.deployment
        if kind == "worker":
            workers = [
                one for one in deployment.processes if one.name.startswith("w") and one.alive
            ]
            one = self.random.choice(workers)
            one.kill()
            deployment.worker(concurrency=4, ready=False)
            return one.name
        found = self._found(kind)
        if not found:
            return ""
        victims = self.random.choice(found)
        # Stop both before killing them, so that neither reacts to the end of the other.
        for number, pid in itertools.product((signal.SIGSTOP, signal.SIGKILL), victims):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return f"{victims}"

    def _found(self, kind: str) -> list[tuple[int, ...]]:
        started = marked(*self.fleet.label)
        agents = set(processes(lambda pid, _: carries_mark(pid))) & set(started)
        supervisors = {
            pid for pid, words in started.items() if "interlock.systems.tasks.supervisor" in words
        }
        watchdogs = {pid for pid, words in started.items() if "processes.agent.watchdog" in words}
        match kind:
            case "supervisor":
                return [(pid,) for pid in sorted(supervisors)]
            case "watchdog":
                return [(pid,) for pid in sorted(watchdogs)]
            case "both":
                pairs = [(parent_of(watchdog), watchdog) for watchdog in sorted(watchdogs)]
                return [pair for pair in pairs if pair[0] in supervisors]
            case _:
                return [(pid,) for pid in sorted(agents)]


def carries_mark(pid: int) -> bool:
    with suppress(OSError):
        return f"{LABEL_VARIABLE}=".encode() in (PROC / str(pid) / "environ").read_bytes()
    return False


def nothing_is_lost_and_nothing_left(fleet: Fleet) -> Counter[str]:
    """Check that every task is merged or has a reason, and that no process or file is left."""
    records = fleet.records()
    for record in itertools.chain(*records.values()):
        fleet.deployment.checked(record.id)
    assert {record.id for record in records["task"]} == {f"b/{name}" for name in fleet.names}
    faults = [
        *wrong_merges(fleet.repo, records["task"]),
        *wrong_in_the_repository(fleet.repo, records["task"]),
        *wrong_ends(records),
        *(f"it runs still: {pid} {words}" for pid, words in fleet.running().items()),
        *(
            f"it runs still: {pid}"
            for pid in processes(lambda _, words: fleet.command_part in words)
        ),
        *(f"two at work at once: {one} {other}" for one, other in at_once(fleet.stamps)),
    ]
    assert faults == []
    for record in records["task"]:
        if record.state != "closed":
            sys.stdout.write(f"{fleet.deployment.story(record.id)}\n{record.data}\n")
    return Counter(record.state for record in records["task"])


def wrong_merges(repo: Path, tasks: list[Record]) -> Iterator[str]:
    """Yield a sentence for each task whose merge into main differs from its record."""
    trailers = git(
        repo, "log", "--first-parent", "--merges", "--format=%(trailers:key=Task,valueonly)"
    )
    merges = Counter(trailers.split())
    for record in tasks:
        name = record.id.partition("/")[2]
        file = repo / f"{name}.txt"
        closed = record.state == "closed"
        if merges[record.id] != closed:
            yield f"{record.id} is {record.state} and was merged {merges[record.id]} times"
        if (file.read_text() if file.exists() else None) != (f"{name}\n" if closed else None):
            yield f"{record.id} is {record.state} and {file.name} does not show it"
        why = record.data.get("failure") or record.data.get("blocked_on") or {}
        if not closed and not (why.get("reason") or why.get("on")):
            yield f"{record.id} is {record.state} and does not say why"


def wrong_in_the_repository(repo: Path, tasks: list[Record]) -> Iterator[str]:
    """Yield a sentence for everything in the repository besides the merged work."""
    if subprocess.run(["/bin/sh", "check.sh"], cwd=repo, check=False).returncode:
        yield "main does not pass its test"
    if changed := git(repo, "status", "--porcelain"):
        yield f"main is not clean: {changed}"
    if broken := git(repo, "fsck", "--no-dangling", "--connectivity-only"):
        yield f"the repository is broken: {broken}"
    if trees(repo) != 1:
        yield f"worktrees are left: {git(repo, 'worktree', 'list')}"
    failed = {record.id for record in tasks if record.state != "closed"}
    for branch in git(repo, "branch", "--list", "interlock/*", "--format=%(refname:short)").split():
        if branch.partition("/")[2].partition("@")[0] not in failed:
            yield f"{branch} is left"
    yield from (f"{lock} is left" for lock in (repo / ".git").glob("**/*.lock"))


def wrong_ends(records: Mapping[str, list[Record]]) -> Iterator[str]:
    """Yield a sentence for each agent and turn that has not ended."""
    for machine, end in ENDS.items():
        for record in records[machine]:
            if record.state != end:
                yield f"{record.id} is {record.state}"


def at_once(stamps: Path) -> Iterator[tuple[Any, Any]]:
    """Yield each pair of claims of one task whose agents were at work at the same time."""
    seen: dict[str, dict[str, list[float]]] = {}
    for line in stamps.read_text().splitlines():
        task_id, branch, at, _ = line.split()
        seen.setdefault(task_id, {}).setdefault(branch, []).append(float(at))
    for branches in seen.values():
        spans = [
            {"branch": branch, "started": min(at), "ended": max(at)}
            for branch, at in branches.items()
        ]
        yield from overlaps(spans)


# What a killed process held is taken over when its lease ends.
@pytest.mark.parametrize("lease_s", ["5"])
def test_a_fleet_with_random_kills_merges_or_explains_every_task(
    fleet: Fleet,
) -> None:
    seed = os.environ.get(SEED) or secrets.token_hex(4)
    sys.stdout.write(f"{SEED}={seed}\n")
    wanted = {"worker": 3, "supervisor": 5, "watchdog": 3, "agent": 5, "both": 2}
    killer = Killer(fleet, seed, wanted)
    fleet.deployment.full(workers=2, concurrency=4)
    fleet.hand_in()

    killer.run()
    fleet.comes_to_rest()

    found = nothing_is_lost_and_nothing_left(fleet)
    sys.stdout.write(f"{dict(found)}\n")
    assert found["closed"] > TASKS // 2


def over(fleet: Fleet, number: int) -> bool:
    return len(fleet.left()) <= TASKS - number


def ended(workers: list[Process]) -> bool:
    return not any(one.alive for one in workers)


# A slow computer could lose a short lease, and the task would then be claimed twice.
@pytest.mark.parametrize("lease_s", ["180"])
def test_a_fleet_whose_workers_are_redeployed_claims_no_task_twice(fleet: Fleet) -> None:
    deployment = fleet.deployment.full(workers=2, concurrency=4)
    fleet.hand_in()

    for part in (1, 2):
        deployment.sees(
            partial(over, fleet, 8 * part),
            what="some tasks are over",
            within_s=WITHIN_S,
        )
        before = [one for one in deployment.processes if one.name.startswith("w") and one.alive]
        for one in before:
            one.signal(signal.SIGTERM)
            deployment.worker(concurrency=4, ready=False)
        deployment.sees(
            partial(ended, before),
            what="the old workers have ended",
            within_s=120,
        )
    fleet.comes_to_rest()

    assert nothing_is_lost_and_nothing_left(fleet) == {"closed": TASKS}
    for name in fleet.names:
        data = deployment.client.show(f"b/{name}").data
        assert (name, data["claimed"], data["crashes"], data["retries"]) == (name, 1, 0, 0)
