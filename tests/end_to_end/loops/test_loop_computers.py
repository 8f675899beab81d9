"""Long-lived agents on two computers: those of a lost one run on the other, never on both."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.kernel.record import Entry, Record
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, Process
from tests.end_to_end.loops.agents import Agents
from tests.end_to_end.tasks.coding import git
from tests.processes import is_alive, processes

# Writes down which other processes of this command are alive, and ignores SIGTERM.
ALONE = """\
trap '' TERM
others() {{ while read -r pid _; do kill -0 "$pid" && printf '%s ' "$pid"; done < {journal}; }}
touch {journal}
printf '%s %s beside:%s\\n' $$ "$PWD" "$(others)" >> {journal}
while [ ! -e {go} ]; do sleep 0.05; done
"""


@dataclass
class Computer:
    """A worker with a host name and files of its own."""

    name: str
    home: Path
    worker: Process

    def destroy(self) -> None:
        """Kill the worker and delete its files. The other computer has the repository too."""
        self.worker.kill()
        shutil.rmtree(self.home)


def computer(deployment: Deployment, folder: Path, name: str) -> Computer:
    """Start a worker under a host name."""
    home = folder / name
    worker = deployment.worker(
        INTERLOCK_HOST=name,
        INTERLOCK_HOME=str(home),
        INTERLOCK_WORKTREES=str(home / "worktrees"),
    )
    return Computer(name, home, worker)


def wait_for_lines(agents: Agents, journal: Path, number: int) -> None:
    """Wait until the journal has one line for each of this many sessions."""

    def done() -> bool:
        return journal.exists() and len(journal.read_text().splitlines()) >= number

    try:
        agents.deployment.sees(done, what=f"session {number}")
    except AssertionError as late:
        raise AssertionError(f"{late}\n{agents.deployment.story('owl/1')}") from None


def triggers_since(agents: Agents, record: Record) -> list[str]:
    """Return the triggers in an agent's log after this version of its record."""
    events = agents.deployment.events(record.id)
    return [one.trigger for one in events if one.version > record.version]


def supervisor_of(session: Entry) -> int:
    """Return the process id of the supervisor that holds the lease of an agent's session."""
    return int(session.holder.rpartition(":")[2])


def leased_sessions(agents: Agents, name: str) -> list[Entry]:
    """Return the effect of an agent's session, if somebody holds its lease."""
    entries = agents.record(name).entries
    return [one for one in entries if (one.name, one.state) == ("session", "leased")]


@pytest.fixture
def agents(new_deployment: NewDeployment, tmp_path: Path) -> Agents:
    deployment = new_deployment()
    deployment.beat()
    return Agents(deployment, tmp_path)


@pytest.fixture(autouse=True)
def no_session_left(tmp_path: Path) -> Iterator[None]:
    """Kill the processes of both computers: a deployment only ends those in its own folder."""
    yield
    for pid in processes(lambda _, words: str(tmp_path).encode() in words):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.proof
def test_an_agent_whose_computer_is_gone_runs_on_the_other_with_its_branch_and_its_mail(
    agents: Agents, tmp_path: Path
) -> None:
    north = computer(agents.deployment, tmp_path, "north")
    never = {"wait": str(tmp_path / "never")}
    agents.start("owl", host="north", building_s=4)
    agents.reaches("owl", "session_complete")
    first = agents.send("owl", {"write": "note.txt"})
    agents.wait_for("owl", 2, "end")
    agents.reaches("owl", "session_complete")
    tree = Path(agents.record("owl").data["worktree"])
    assert tree.is_relative_to(north.home)
    git(tree, "add", "--all")
    git(tree, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "a note")
    second = agents.send("owl", "look at the fuse box", never)
    busy = agents.wait_for("owl", 3)
    running = agents.reaches("owl", "running")

    os.kill(supervisor_of(*leased_sessions(agents, "owl")), signal.SIGKILL)
    north.destroy()
    third = agents.send("owl", "the barn is open")
    south = computer(agents.deployment, tmp_path, "south")
    agents.deployment.sees(
        lambda: "worktree_ready" in triggers_since(agents, running),
        what="the other computer has its worktree",
        within_s=180,
    )
    following = agents.wait_for("owl", 4)

    assert not is_alive(busy["pid"])
    assert (busy["mail"], following["mail"]) == ([second], [third]), (
        "no mail is lost or given twice"
    )
    assert first not in following["prompt"]
    shown_again = following["prompt"].partition("# What the session before you had been sent")[2]
    assert second in shown_again.partition("# Your mail")[0]
    now = agents.reaches("owl", "session_complete").data
    assert (now["host"], now["branch"]) == ("south", "interlock/agents/owl")
    tree = Path(now["worktree"])
    assert tree.is_relative_to(south.home)
    assert git(tree, "show", "HEAD:note.txt") == "owl", "the commit is on its branch"
    events = agents.deployment.events("owl/1")
    overdue = [one for one in events if (one.trigger, one.target) == ("overdue", "initializing")]
    assert [one.payload["unbegun"] for one in overdue] == [True], agents.deployment.story("owl/1")
    assert now["total_errors"] == 1, "only the lost session counts as an error, not the computer"


@pytest.mark.proof
def test_a_prompt_that_nobody_builds_is_overdue_while_a_lost_session_is_still_waited_for(
    agents: Agents, tmp_path: Path
) -> None:
    north = computer(agents.deployment, tmp_path, "north")
    agents.start("owl", {"wait": str(tmp_path / "never")}, host="north", building_s=2)
    agents.wait_for("owl")
    running = agents.reaches("owl", "running")
    agents.deployment.grace_ms = 3_600_000
    os.kill(supervisor_of(*leased_sessions(agents, "owl")), signal.SIGKILL)
    north.destroy()

    computer(agents.deployment, tmp_path, "south")

    agents.deployment.sees(
        lambda: "overdue" in triggers_since(agents, running), what="no prompt is built"
    )
    first = next(
        one
        for one in agents.deployment.events("owl/1")
        if one.trigger == "overdue" and one.version > running.version
    )
    [left] = [one for one in agents.record("owl").entries if one.name == "session"]
    assert first.at_ms < left.kill_by, "the lost session is still waited for"
    assert first.payload["unbegun"], "no worker has started to build it"


@pytest.mark.proof
def test_computers_that_share_their_files_go_on_in_the_same_worktree(
    agents: Agents, tmp_path: Path
) -> None:
    north = computer(agents.deployment, tmp_path, "north")
    agents.start("owl", host="north", building_s=4)
    before = agents.reaches("owl", "session_complete").data
    (Path(before["worktree"]) / "half.txt").write_text("not committed")
    north.worker.kill()

    computer(agents.deployment, tmp_path, "south")
    agents.send("owl")
    agents.wait_for("owl", 2)

    now = agents.reaches("owl", "session_complete").data
    assert (now["host"], now["worktree"]) == ("south", before["worktree"])
    assert (Path(now["worktree"]) / "half.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("gone", [pytest.param(False, marks=pytest.mark.proof), True])
def test_no_second_session_starts_while_the_first_may_still_run(
    agents: Agents, tmp_path: Path, *, gone: bool
) -> None:
    # How long a frozen supervisor is waited for cannot be shortened: its lease ends by itself. On a
    # slow computer a short lease may end before its holder is frozen: then a longer one is tried.
    assert any(is_alone(agents, tmp_path / f"{s}", gone=gone, lease_s=s) for s in (2, 20, 60))


def is_alone(agents: Agents, folder: Path, *, gone: bool, lease_s: int) -> bool:
    """Check that an agent's next session starts when a frozen one has surely ended.

    Return False if the lease of the first session ended before it was frozen.
    """
    folder.mkdir()
    name, deployment = f"owl-{lease_s}", agents.deployment
    deployment.variables["INTERLOCK_LEASE_S"] = f"{lease_s}"
    hosts = f"north-{lease_s}", f"south-{lease_s}"
    north = computer(deployment, folder, hosts[0])
    journal, go = folder / "journal", folder / "go"
    paths = {"journal": shlex.quote(str(journal)), "go": shlex.quote(str(go))}
    command = ALONE.format(**paths)
    agents.loops.start(
        name, repo=agents.repo, command=command, host=hosts[0], building_s=2 * lease_s
    )
    wait_for_lines(agents, journal, 1)
    computer(deployment, folder, hosts[1])
    if gone:
        north.worker.kill()

    # The other computer cannot tell a frozen supervisor from one that has ended.
    before = leased_sessions(agents, name)
    for entry in before:
        os.kill(supervisor_of(entry), signal.SIGSTOP)
    frozen = leased_sessions(agents, name)
    sessions = journal.read_text().splitlines()
    if not before or [one.token for one in frozen] != [before[0].token] or len(sessions) > 1:
        go.touch()
        return False
    wait_for_lines(agents, journal, 2)

    first, second = journal.read_text().splitlines()[:2]
    assert second.endswith("beside:"), f"{first!r} was still alive beside it"
    events = deployment.events(f"{name}/1")
    started = [one for one in events if one.trigger == "session_started"]
    assert started[1].at_ms >= frozen[0].kill_by, (
        "the first kept its lease and its grace to the end"
    )
    is_at_home = agents.reaches(name, "running").data["host"] == hosts[0]
    assert is_at_home is not gone
    go.touch()
    return True


def test_an_agent_stays_on_its_computer_while_its_session_runs_without_a_worker(
    agents: Agents, tmp_path: Path
) -> None:
    north = computer(agents.deployment, tmp_path, "north")
    go = tmp_path / "go"
    agents.start("owl", {"wait": str(go)}, host="north", building_s=4)
    first = agents.wait_for("owl")
    before = agents.reaches("owl", "running")

    north.worker.stop()
    computer(agents.deployment, tmp_path, "south")
    [held] = agents.record("owl").entries
    agents.deployment.sees(
        lambda: agents.record("owl").entries[0].lease_until > held.lease_until + 1_000,
        what="its lease is renewed twice without a worker",
    )

    now = agents.record("owl")
    assert (now.state, now.version, now.data["host"]) == ("running", before.version, "north")
    assert is_alive(first["pid"])
    go.touch()
    agents.reaches("owl", "session_complete")
    assert len(agents.journal("owl")) == 1


@pytest.mark.proof
def test_a_name_that_was_stopped_on_a_lost_computer_can_be_started_on_another(
    agents: Agents, tmp_path: Path
) -> None:
    north = computer(agents.deployment, tmp_path, "north")
    agents.start("owl", host="north")
    agents.reaches("owl", "session_complete")
    north.destroy()
    agents.loops.stop("owl")

    computer(agents.deployment, tmp_path, "south")
    agents.start("owl", host="south")

    now = agents.reaches("owl", "session_complete")
    assert (now.id, now.data["host"]) == ("owl/2", "south")
