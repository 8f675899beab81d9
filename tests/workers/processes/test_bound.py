"""A tethered command ends with its starter, however the starter ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.workers.processes.bound import end_bound, extend, start_bound
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
STARTER = """
import sys
from pathlib import Path
from interlock.workers.processes.bound import start_bound

folder = Path(sys.argv[1])
keeper = start_bound(
    [sys.executable, "-c", sys.argv[2]], folder=folder, output=(folder / "log").open("wb"),
    grace_s=0.2,
)
{then}
"""
# A keeper whose clock stands still until the test moves it; it counts how often it looks at it.
CLOCKED = """
import sys
from pathlib import Path
from types import SimpleNamespace
from interlock.workers.processes import bound

looks = open("looks", "ab", buffering=0)

def monotonic():
    looks.write(b".")
    return float(Path("clock").read_text())

bound.time = SimpleNamespace(monotonic=monotonic)
bound.PARENT_POLL_S = 0.01
sys.exit(bound.main(["0.2", sys.executable, "-c", sys.argv[1]]))
"""
WAIT = "sys.stdin.read()"
FORK = "import os\nif os.fork():\n    sys.stdin.read()\nelse:\n    import time; time.sleep(30)"


@contextmanager
def keeper_of(program: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("wb") as output:
        keeper = start_bound(
            [sys.executable, "-c", program], folder=folder, output=output, grace_s=0.2
        )
    try:
        yield keeper
    finally:
        end_bound(keeper, patience_s=5)


def written_ids(folder: Path) -> tuple[int, int]:
    until((folder / "pids").exists, what="the command is up")
    command, grandchild = (folder / "pids").read_text().split()
    return int(command), int(grandchild)


def gone(ids: tuple[int, int]) -> bool:
    return not any(map(is_alive, ids))


@contextmanager
def starter_of(folder: Path, then: str) -> Iterator[subprocess.Popen[bytes]]:
    program = STARTER.replace("{then}", then)
    starter = subprocess.Popen(
        [sys.executable, "-c", program, str(folder), STUBBORN],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        start_new_session=True,
    )
    try:
        yield starter
    finally:
        os.killpg(starter.pid, signal.SIGKILL)
        starter.communicate()


def test_a_sigkill_of_the_starter_ends_a_stubborn_command_and_its_children(tmp_path: Path) -> None:
    with starter_of(tmp_path, WAIT) as starter:
        ids = written_ids(tmp_path)
        starter.kill()

        until(lambda: gone(ids), what="command and child are gone")


def test_a_starter_that_forked_cannot_keep_the_command_alive_by_its_child(tmp_path: Path) -> None:
    with starter_of(tmp_path, FORK) as starter:
        ids = written_ids(tmp_path)
        starter.kill()

        until(lambda: gone(ids), what="command and child are gone")


def test_a_sigkill_of_the_keeper_ends_the_command(tmp_path: Path) -> None:
    program = STUBBORN.replace("subprocess.Popen(", "(lambda _: type('P', (), {'pid': 0}))(")
    with keeper_of(program, tmp_path) as keeper:
        command, _ = written_ids(tmp_path)
        keeper.kill()

        until(lambda: not is_alive(command), what="the command is gone")


def test_the_end_of_the_thread_that_started_it_does_not_end_the_command(tmp_path: Path) -> None:
    keepers: list[subprocess.Popen[bytes]] = []
    output = (tmp_path / "log").open("wb")

    def start() -> None:
        command = [sys.executable, "-c", STUBBORN]
        keepers.append(start_bound(command, folder=tmp_path, output=output, grace_s=0.2))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    with output:
        ids = written_ids(tmp_path)
        assert keepers[0].poll() is None
        assert not gone(ids)
        end_bound(keepers[0], patience_s=5)
    assert gone(ids)


def test_the_keeper_ends_with_the_exit_code_of_its_command(tmp_path: Path) -> None:
    with keeper_of("raise SystemExit(7)", tmp_path) as keeper:
        assert keeper.wait(10) == 7


def test_a_command_that_heeds_the_request_to_end_is_not_killed(tmp_path: Path) -> None:
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "open('up', 'w').close()\n"
        "signal.pause()"
    )
    with keeper_of(program, tmp_path) as keeper:
        until((tmp_path / "up").exists, what="the command is up")
        assert end_bound(keeper, patience_s=5) == 3


# --- so long and no longer -------------------------------------------------------------------


def set_clock(folder: Path, now_s: float) -> None:
    (folder / "clock.part").write_text(f"{now_s}")
    (folder / "clock.part").rename(folder / "clock")


def look(folder: Path) -> None:
    """Wait until the keeper has read all that it was told, and looked at its clock after that."""
    looks = folder / "looks"
    before = looks.stat().st_size
    until(lambda: looks.stat().st_size >= before + 5, what="the keeper looks at its clock")


@contextmanager
def clocked_keeper_of(program: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    set_clock(folder, 0)
    keeper = subprocess.Popen(
        [sys.executable, "-c", CLOCKED, program],
        stdin=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        start_new_session=True,
    )
    try:
        yield keeper
    finally:
        end_bound(keeper, patience_s=5)


def test_a_command_that_was_prolonged_once_ends_when_nothing_more_is_told(tmp_path: Path) -> None:
    with keeper_of(STUBBORN, tmp_path) as keeper:
        ids = written_ids(tmp_path)
        told = time.monotonic()
        extend(keeper, 0.3)

        until(lambda: gone(ids), what="command and child are gone, and the pipe is open")
        assert time.monotonic() - told >= 0.3
        assert keeper.wait(10) == 128 + signal.SIGKILL
        extend(keeper, 60)  # nobody is left to hear it


def test_a_command_lives_as_long_as_it_is_told(tmp_path: Path) -> None:
    with clocked_keeper_of(STUBBORN, tmp_path) as keeper:
        ids = written_ids(tmp_path)
        set_clock(tmp_path, 1_000)
        look(tmp_path)
        for now_s in range(1_000, 1_050, 8):
            set_clock(tmp_path, now_s)
            look(tmp_path)
            assert keeper.poll() is None, f"it was told to live on at {now_s}"
            extend(keeper, 10)
            look(tmp_path)
        assert not gone(ids)
        set_clock(tmp_path, 1_059)

        until(lambda: gone(ids), what="nothing more was told: command and child are gone")


def test_of_what_is_told_the_last_word_counts(tmp_path: Path) -> None:
    with clocked_keeper_of(STUBBORN, tmp_path) as keeper:
        ids = written_ids(tmp_path)
        for left_s in (1, 600):
            extend(keeper, left_s)
        look(tmp_path)
        set_clock(tmp_path, 599)
        look(tmp_path)
        assert not gone(ids)
        extend(keeper, -1)

        until(lambda: gone(ids), what="no time is left: command and child are gone")
