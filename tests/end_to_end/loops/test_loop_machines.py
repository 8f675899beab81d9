"""Long-lived agents on two machines: where one is gone, they go on on the other, never on both."""

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

from interlock.kernel.record import Record
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, Process
from tests.end_to_end.loops.agents import Colony
from tests.end_to_end.tasks.coding import git
from tests.processes import is_alive, processes

pytestmark = pytest.mark.timeout(240)

# It says who of its kind is there beside it, and ends by nobody's order but a kill.
LONELY = """\
trap '' TERM
there() {{ while read -r pid _; do kill -0 "$pid" && printf '%s ' "$pid"; done < {book}; }}
touch {book}
printf '%s %s beside:%s\\n' $$ "$PWD" "$(there)" >> {book}
while [ ! -e {go} ]; do sleep 0.05; done
"""


@dataclass
class Machine:
    """A worker with a name and files of its own."""

    name: str
    home: Path
    worker: Process

    def is_lost(self) -> None:
        """Lose it with its files; the repository is on the other as well."""
        self.worker.kill()
        shutil.rmtree(self.home)


def machine(deployment: Deployment, folder: Path, name: str) -> Machine:
    """Start a machine."""
    home = folder / name
    return Machine(name, home, deployment.worker(INTERLOCK_HOST=name, INTERLOCK_HOME=str(home)))


def written(colony: Colony, book: Path, number: int) -> None:
    """Wait until so many sessions have written themselves down."""

    def done() -> bool:
        return book.exists() and len(book.read_text().splitlines()) == number

    try:
        colony.deployment.sees(done, what=f"session {number}", within_s=60)
    except AssertionError as late:
        raise AssertionError(f"{late}\n{colony.deployment.story('owl/1')}") from None


def since(colony: Colony, record: Record) -> list[str]:
    """Return what has moved an agent since it was looked at."""
    events = colony.deployment.events(record.id)
    return [one.trigger for one in events if one.version > record.version]


def keeper_of(record: Record) -> int:
    """Return who keeps an agent's session."""
    [entry] = [one for one in record.entries if one.name == "session"]
    return int(entry.holder.rpartition(":")[2])


@pytest.fixture
def colony(new_deployment: NewDeployment, tmp_path: Path) -> Colony:
    deployment = new_deployment()
    deployment.beat()
    return Colony(deployment, tmp_path)


@pytest.fixture(autouse=True)
def no_keeper_left(tmp_path: Path) -> Iterator[None]:
    """End what lives in machines' files: a deployment knows of its own alone."""
    yield
    for one in processes(lambda _, words: str(tmp_path).encode() in words):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


@pytest.mark.proof
def test_an_agent_whose_machine_is_gone_goes_on_on_the_other_with_its_branch_and_its_mail(
    colony: Colony, tmp_path: Path
) -> None:
    north = machine(colony.deployment, tmp_path, "north")
    never = {"wait": str(tmp_path / "never")}
    colony.start("owl", host="north", building_s=4)
    colony.reaches("owl", "session_complete")
    first = colony.send("owl", {"write": "note.txt"})
    colony.sees("owl", 2, "end")
    colony.reaches("owl", "session_complete")
    tree = Path(colony.record("owl").data["worktree"])
    assert tree.is_relative_to(north.home)
    git(tree, "add", "--all")
    git(tree, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "a note")
    second = colony.send("owl", "look at the fuse box", never)
    busy = colony.sees("owl", 3)
    running = colony.reaches("owl", "running")

    os.kill(keeper_of(running), signal.SIGKILL)
    north.is_lost()
    third = colony.send("owl", "the barn is open")
    south = machine(colony.deployment, tmp_path, "south")
    colony.deployment.sees(
        lambda: "worktree_ready" in since(colony, running), what="it has moved", within_s=60
    )
    following = colony.sees("owl", 4)

    assert not is_alive(busy["pid"])
    assert (busy["mail"], following["mail"]) == ([second], [third]), "none is lost, none doubled"
    assert first not in following["prompt"]
    again = following["prompt"].partition("# What the session before you had been sent")[2]
    assert second in again.partition("# Your mail")[0]
    now = colony.reaches("owl", "session_complete").data
    assert (now["host"], now["branch"]) == ("south", "interlock/agents/owl")
    place = Path(now["worktree"])
    assert place.is_relative_to(south.home)
    assert git(place, "show", "HEAD:note.txt") == "owl", "what was committed is on its branch"
    events = colony.deployment.events("owl/1")
    moved = [one for one in events if (one.trigger, one.target) == ("overdue", "initializing")]
    assert [one.payload["unbegun"] for one in moved] == [True], colony.deployment.story("owl/1")
    assert now["total_errors"] == 1, "a machine that is gone is no error but its lost session's"


@pytest.mark.proof
def test_what_a_lost_session_leaves_does_not_hide_that_nobody_builds_its_prompt(
    colony: Colony, tmp_path: Path
) -> None:
    north = machine(colony.deployment, tmp_path, "north")
    colony.start("owl", {"wait": str(tmp_path / "never")}, host="north", building_s=2)
    colony.sees("owl")
    running = colony.reaches("owl", "running")
    os.kill(keeper_of(running), signal.SIGKILL)
    north.is_lost()

    machine(colony.deployment, tmp_path, "south")

    colony.deployment.sees(lambda: "overdue" in since(colony, running), what="no prompt is built")
    first = next(
        one
        for one in colony.deployment.events("owl/1")
        if one.trigger == "overdue" and one.version > running.version
    )
    [left] = [one for one in running.entries if one.name == "session"]
    assert first.at_ms < left.kill_by, "its lost session is still waited for"
    assert first.payload["unbegun"], "nobody has begun it"


@pytest.mark.proof
def test_where_machines_share_their_files_it_goes_on_in_the_worktree_that_it_had(
    colony: Colony, tmp_path: Path
) -> None:
    north = machine(colony.deployment, tmp_path, "north")
    colony.start("owl", host="north", building_s=4)
    before = colony.reaches("owl", "session_complete").data
    (Path(before["worktree"]) / "half.txt").write_text("not committed")
    north.worker.kill()

    machine(colony.deployment, tmp_path, "south")
    colony.send("owl")
    colony.sees("owl", 2)

    now = colony.reaches("owl", "session_complete").data
    assert (now["host"], now["worktree"]) == ("south", before["worktree"])
    assert (Path(now["worktree"]) / "half.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("gone", [pytest.param(False, marks=pytest.mark.proof), True])
def test_no_second_session_starts_while_the_first_may_live(
    colony: Colony, tmp_path: Path, *, gone: bool
) -> None:
    north = machine(colony.deployment, tmp_path, "north")
    book, go = tmp_path / "book", tmp_path / "go"
    told = {"book": shlex.quote(str(book)), "go": shlex.quote(str(go))}
    colony.loops.start(
        "owl", repo=colony.repo, command=LONELY.format(**told), host="north", building_s=4
    )
    written(colony, book, 1)
    running = colony.reaches("owl", "running")
    machine(colony.deployment, tmp_path, "south")
    if gone:
        north.worker.kill()

    # Seen from elsewhere, who is frozen or cut off looks like one that is gone.
    os.kill(keeper_of(running), signal.SIGSTOP)
    [held] = [one for one in running.entries if one.name == "session"]
    written(colony, book, 2)

    first, second = book.read_text().splitlines()
    assert second.endswith("beside:"), f"{first!r} was there beside it"
    started = [one for one in colony.deployment.events("owl/1") if one.trigger == "session_started"]
    assert started[1].at_ms >= held.kill_by, "the first had all of its time"
    host = "south" if gone else "north"
    assert colony.reaches("owl", "running").data["host"] == host
    go.touch()


def test_an_agent_stays_where_it_is_while_its_session_lives_though_no_worker_is_there(
    colony: Colony, tmp_path: Path
) -> None:
    north = machine(colony.deployment, tmp_path, "north")
    go = tmp_path / "go"
    colony.start("owl", {"wait": str(go)}, host="north", building_s=4)
    first = colony.sees("owl")
    before = colony.reaches("owl", "running")
    [held] = before.entries

    north.worker.stop()
    machine(colony.deployment, tmp_path, "south")
    now_ms = colony.deployment.client.dispatch.views.now_ms
    colony.deployment.sees(lambda: now_ms() > held.lease_until + 2_000, what="more than its lease")

    now = colony.record("owl")
    assert (now.state, now.version, now.data["host"]) == ("running", before.version, "north")
    assert is_alive(first["pid"])
    go.touch()
    colony.reaches("owl", "session_complete")
    assert len(colony.saw("owl")) == 1


@pytest.mark.proof
def test_a_name_that_was_stopped_where_its_machine_is_gone_can_live_again_on_another(
    colony: Colony, tmp_path: Path
) -> None:
    north = machine(colony.deployment, tmp_path, "north")
    colony.start("owl", host="north")
    colony.reaches("owl", "session_complete")
    north.is_lost()
    colony.loops.stop("owl")

    machine(colony.deployment, tmp_path, "south")
    colony.start("owl", host="south")

    now = colony.reaches("owl", "session_complete")
    assert (now.id, now.data["host"]) == ("owl/2", "south")
