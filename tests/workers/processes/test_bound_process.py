"""A bound command ends with the process that started it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.workers.processes.bound_process import end_bound, extend, has_ended, start_bound
from interlock.workers.processes.clock import clock
from tests.processes import is_alive
from tests.waiting import until

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("pids.part", "w").write(f"{os.getpid()} {child.pid}")
os.rename("pids.part", "pids")
time.sleep(600)
"""
PARENT = """
import sys
from pathlib import Path
from interlock.workers.processes.bound_process import start_bound

folder = Path(sys.argv[1])
bound = start_bound(
    [sys.executable, "-c", sys.argv[2]], folder=folder, output=(folder / "log").open("wb"),
    grace_s=0.2,
)
{then}
"""
# It leaves two servers behind, each in a session of its own, the second as the child of a process
# that has ended.
LEAVES_SERVERS = """
import os, subprocess, sys
SERVER = [sys.executable, "-c", "import time; time.sleep(600)"]
START = "import subprocess; print(subprocess.Popen({}, stdout=2, start_new_session=True).pid)"
one = subprocess.Popen(SERVER, start_new_session=True)
two = subprocess.check_output([sys.executable, "-c", START.format(SERVER)], text=True)
open("pids.part", "w").write(f"{one.pid} {int(two)}")
os.rename("pids.part", "pids")
"""
# A bound process whose clock a test sets; it writes a byte whenever it reads its clock.
CLOCKED = """
import sys
from pathlib import Path
from interlock.workers.processes import bound_command

reads = open("reads", "ab", buffering=0)

def clock():
    reads.write(b".")
    return float(Path("clock").read_text())

bound_command.clock = clock
bound_command.PARENT_POLL_S = 0.01
sys.exit(bound_command.main(["0.2", "adopt", sys.executable, "-c", sys.argv[1]]))
"""
# A bound command that gets SIGTERM in the moment before it is executed.
STOPPED_AT_ITS_START = """
import os, signal, sys
from interlock.workers.processes import bound_command

dup2 = os.dup2

def signal_and_dup2(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    return dup2(*arguments)

os.dup2 = signal_and_dup2
sys.exit(bound_command.main(["60", "adopt", "true"]))
"""
WAIT_FOR_FILE = """
import os, time
while not os.path.exists("go"):
    time.sleep(0.01)
"""
WAIT = "sys.stdin.read()"
FORK = "import os\nif os.fork():\n    sys.stdin.read()\nelse:\n    import time; time.sleep(600)"


@contextmanager
def bound_to_this_process(program: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("wb") as output:
        bound = start_bound(
            [sys.executable, "-c", program], folder=folder, output=output, grace_s=0.2
        )
    try:
        yield bound
    finally:
        end_bound(bound, patience_s=60)


def written_ids(folder: Path) -> tuple[int, int]:
    until((folder / "pids").exists, what="the command is up")
    command, grandchild = (folder / "pids").read_text().split()
    return int(command), int(grandchild)


def gone(ids: tuple[int, int]) -> bool:
    return not any(map(is_alive, ids))


@contextmanager
def parent_of_a_command(folder: Path, then: str) -> Iterator[subprocess.Popen[bytes]]:
    program = PARENT.replace("{then}", then)
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(folder), STUBBORN],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        start_new_session=True,
    )
    try:
        yield parent
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.communicate()


def test_the_end_of_a_command_is_noticed_before_the_time_is_up(tmp_path: Path) -> None:
    with bound_to_this_process(WAIT_FOR_FILE, tmp_path) as bound:
        assert not has_ended(bound, within_s=0.01)
        (tmp_path / "go").touch()
        until(lambda: has_ended(bound, within_s=3_600), what="the command has ended")
        assert bound.returncode == 0


def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    with bound_to_this_process(LEAVES_SERVERS, tmp_path) as bound:
        ids = written_ids(tmp_path)
        until(lambda: has_ended(bound, within_s=3_600), what="the command has ended")

        assert gone(ids)
        assert bound.returncode == 0


def test_a_sigkill_of_the_parent_ends_a_stubborn_command_and_its_children(tmp_path: Path) -> None:
    with parent_of_a_command(tmp_path, WAIT) as parent:
        ids = written_ids(tmp_path)
        parent.kill()

        until(lambda: gone(ids), what="command and child are gone")


def test_a_child_that_the_parent_forked_does_not_keep_the_command_alive(tmp_path: Path) -> None:
    with parent_of_a_command(tmp_path, FORK) as parent:
        ids = written_ids(tmp_path)
        parent.kill()

        until(lambda: gone(ids), what="command and child are gone")


def test_a_sigkill_of_the_bound_process_ends_the_command(tmp_path: Path) -> None:
    program = STUBBORN.replace("subprocess.Popen(", "(lambda _: type('P', (), {'pid': 0}))(")
    with bound_to_this_process(program, tmp_path) as bound:
        command, _ = written_ids(tmp_path)
        bound.kill()

        until(lambda: not is_alive(command), what="the command is gone")


def test_the_end_of_the_thread_that_started_it_does_not_end_the_command(tmp_path: Path) -> None:
    started: list[subprocess.Popen[bytes]] = []
    output = (tmp_path / "log").open("wb")

    def start() -> None:
        command = [sys.executable, "-c", STUBBORN]
        started.append(start_bound(command, folder=tmp_path, output=output, grace_s=0.2))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    with output:
        ids = written_ids(tmp_path)
        assert started[0].poll() is None
        assert not gone(ids)
        end_bound(started[0], patience_s=60)
    assert gone(ids)


def test_a_bound_process_exits_with_the_code_of_its_command(tmp_path: Path) -> None:
    with bound_to_this_process("raise SystemExit(7)", tmp_path) as bound:
        assert bound.wait(180) == 7


def test_a_program_that_does_not_exist_is_named_in_the_output(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as output:
        bound = start_bound(["no-such-program"], folder=tmp_path, output=output, grace_s=0.2)
        code = bound.wait(180)
        end_bound(bound, patience_s=60)

    assert code == 127
    assert (tmp_path / "log").read_text() == (
        "no-such-program cannot be run: No such file or directory\n"
    )


def test_a_command_that_ends_at_sigterm_is_not_killed(tmp_path: Path) -> None:
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "open('up', 'w').close()\n"
        "signal.pause()"
    )
    with bound_to_this_process(program, tmp_path) as bound:
        until((tmp_path / "up").exists, what="the command is up")
        assert end_bound(bound, patience_s=60) == 3


def test_a_command_that_is_stopped_while_it_starts_ends_at_sigterm(tmp_path: Path) -> None:
    with bound_by(STOPPED_AT_ITS_START, tmp_path) as bound:
        assert bound.wait(180) == 128 + signal.SIGTERM


@contextmanager
def bound_by(program: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program of Python that runs a bound command, and end it."""
    bound = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        start_new_session=True,
    )
    try:
        yield bound
    finally:
        end_bound(bound, patience_s=60)


# --- the deadline ----------------------------------------------------------------------------


def set_clock(folder: Path, now_s: float) -> None:
    (folder / "clock.part").write_text(f"{now_s}")
    (folder / "clock.part").rename(folder / "clock")


def wait_for_reads(folder: Path) -> None:
    """Wait until the bound process has read its input, and its clock after that."""
    reads = folder / "reads"
    before = reads.stat().st_size
    until(lambda: reads.stat().st_size >= before + 5, what="the bound process reads its clock")


@contextmanager
def bound_with_clock(program: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    set_clock(folder, 0)
    with bound_by(CLOCKED, folder, program) as bound:
        yield bound


def pass_time(folder: Path, now_s: float, until_s: float) -> None:
    """Let time pass so slowly that the bound process is never late."""
    while now_s < until_s:
        now_s = min(now_s + 2, until_s)
        set_clock(folder, now_s)
        wait_for_reads(folder)


def test_a_command_with_a_deadline_ends_when_it_is_not_extended(tmp_path: Path) -> None:
    with bound_to_this_process(STUBBORN, tmp_path) as bound:
        ids = written_ids(tmp_path)
        extended_at = clock()
        extend(bound, extended_at + 0.3)

        until(lambda: gone(ids), what="command and child are gone, and the pipe is open")
        assert clock() - extended_at >= 0.3
        assert bound.wait(180) == -signal.SIGKILL, "no code that the command itself can have"
        extend(bound, clock() + 60)  # no process is left to read it


def test_a_command_runs_as_long_as_it_is_extended(tmp_path: Path) -> None:
    with bound_with_clock(STUBBORN, tmp_path) as bound:
        ids = written_ids(tmp_path)
        set_clock(tmp_path, 1_000)
        wait_for_reads(tmp_path)
        for now_s in range(1_000, 1_050, 8):
            pass_time(tmp_path, max(now_s - 8, 1_000), now_s)
            assert bound.poll() is None, f"it was extended at {now_s}"
            extend(bound, now_s + 10)
            wait_for_reads(tmp_path)
        assert not gone(ids)
        pass_time(tmp_path, 1_048, 1_057)
        set_clock(tmp_path, 1_059)

        until(lambda: gone(ids), what="it was not extended again: command and child are gone")


def test_the_last_extension_counts(tmp_path: Path) -> None:
    with bound_with_clock(STUBBORN, tmp_path) as bound:
        ids = written_ids(tmp_path)
        for until_s in (1, 600):
            extend(bound, until_s)
        wait_for_reads(tmp_path)
        set_clock(tmp_path, 599)
        wait_for_reads(tmp_path)
        assert not gone(ids)
        extend(bound, 598)

        until(lambda: gone(ids), what="no time is left: command and child are gone")


# --- the computer sleeps ---------------------------------------------------------------------


def states(ids: tuple[int, int]) -> set[str]:
    texts = [Path(f"/proc/{each}/stat").read_text() for each in ids]
    return {text.rpartition(")")[2].split()[0] for text in texts}


def test_a_command_is_stopped_after_a_sleep_until_it_is_extended_again(tmp_path: Path) -> None:
    with bound_with_clock(STUBBORN, tmp_path) as bound:
        ids = written_ids(tmp_path)
        extend(bound, 10)
        wait_for_reads(tmp_path)
        set_clock(tmp_path, 100)
        until(lambda: states(ids) == {"T"}, what="command and child are stopped")

        extend(bound, 90)  # written before the sleep
        wait_for_reads(tmp_path)
        assert states(ids) == {"T"}
        extend(bound, 110)

        until(lambda: "T" not in states(ids), what="they go on")
        assert bound.poll() is None


def test_a_command_that_is_not_extended_after_a_sleep_is_killed(tmp_path: Path) -> None:
    with bound_with_clock(STUBBORN, tmp_path) as bound:
        ids = written_ids(tmp_path)
        extend(bound, 10)
        wait_for_reads(tmp_path)
        set_clock(tmp_path, 100)
        until(lambda: states(ids) == {"T"}, what="command and child are stopped")
        pass_time(tmp_path, 100, 129)
        assert states(ids) == {"T"}
        set_clock(tmp_path, 131)

        until(lambda: gone(ids), what="command and child are gone")
        assert bound.wait(180) == -signal.SIGKILL
