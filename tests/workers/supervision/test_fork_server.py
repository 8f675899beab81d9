"""Keepers are forked from a forker, and each is as if it were a program of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from interlock.workers.supervision import launch as detached
from interlock.workers.supervision.fork_server import NEEDED
from interlock.workers.supervision.launch import FORK_SERVER, SupervisorError, launch
from tests.processes import PROC, is_alive, parent_of, processes
from tests.waiting import until
from tests.workers.supervision.probe_supervisor import descriptors, signals

PROBE = "tests.workers.supervision.probe_supervisor"
# A process of its own holds the leases of each of these.
SUPERVISORS = [f"interlock.workers.{one}.supervisor" for one in ("tasks", "loops", "runs")]
pytestmark = pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="there is no /proc")

# Starts a keeper for each line that it is told.
WORKER = """
import sys
from pathlib import Path
from interlock.workers.supervision.launch import launch

for line in sys.stdin:
    launch(sys.argv[1], Path(line.strip()), lambda: None, every_s=5)
"""


@dataclass
class Probes:
    """Briefs for keepers below one folder, and what became of each."""

    folder: Path

    def brief(self, name: str, **words: Any) -> Path:
        """Write one down."""
        file = self.folder / name / "brief.json"
        file.parent.mkdir()
        file.write_text(json.dumps(words))
        return file

    def start(self, name: str, *pass_fds: int, **words: Any) -> dict[str, Any]:
        """Start a keeper, and return what it saw."""
        launch(PROBE, self.brief(name, **words), lambda: None, every_s=5, pass_fds=pass_fds)
        return self.seen(name)

    def seen(self, name: str) -> dict[str, Any]:
        """Return what a keeper saw as it began."""
        file = self.folder / name / "seen.json"
        until(file.exists, what=f"{name} has begun")
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def log(self, name: str) -> str:
        """Return what a keeper has said since it took over."""
        log = self.folder / name / "keeper.log"
        return log.read_text() if log.exists() else ""


@pytest.fixture
def probes(tmp_path: Path) -> Iterator[Probes]:
    yield Probes(tmp_path)
    for seen in tmp_path.glob("*/seen.json"):
        with suppress(ProcessLookupError):
            os.kill(json.loads(seen.read_text())["pid"], signal.SIGKILL)


@pytest.fixture(scope="module", autouse=True)
def forker_ended() -> Iterator[None]:
    """End the one of this process after all of these tests: they share it."""
    yield
    FORK_SERVER.end()


def forkers(of: int) -> list[int]:
    """Return the forkers of a process."""
    return processes(
        lambda pid, words: (
            b"interlock.workers.supervision.fork_server" in words and parent_of(pid) == of
        )
    )


def test_a_keeper_is_a_program_of_its_own_with_all_that_it_needs_loaded(probes: Probes) -> None:
    seen = probes.start("one")

    brief, [forker] = str(probes.folder / "one" / "brief.json"), forkers(os.getpid())
    assert seen["session"] == seen["pid"]
    assert seen["parent"] not in (forker, os.getpid())
    assert seen["folder"] == str(Path.cwd())
    assert seen["arguments"][1:] == [brief]
    assert {PROBE, *NEEDED} <= set(seen["loaded"])
    command = (PROC / str(seen["pid"]) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    assert command == [word.encode() for word in (sys.executable, "-m", PROBE, brief)]
    until(lambda: probes.log("one") == "this is kept\n", what="what it says is in its log")


def test_a_command_line_that_is_too_long_is_cut(probes: Probes) -> None:
    probes.folder = probes.folder.joinpath(*["long" * 50] * 6)
    probes.folder.mkdir(parents=True)

    seen = probes.start("one")

    command = (PROC / str(seen["pid"]) / "cmdline").read_bytes()
    assert f"-m\0{PROBE}\0{probes.folder}"[:600].encode() in command
    os.kill(seen["pid"], signal.SIGKILL)


def test_a_keeper_has_the_descriptors_that_are_passed_and_no_others(probes: Probes) -> None:
    probes.start("before")
    with (probes.folder / "passed").open("wb") as passed:
        seen = probes.start("one", passed.fileno())["descriptors"]

    told = {number: seen.pop(number) for number in ("0", "1", "2")}
    assert told.pop("2").startswith("pipe:")
    assert set(told.values()) == {os.devnull}
    assert list(seen.values()) == [passed.name]
    pid, expected = probes.seen("one")["pid"], [0, 1, 2, *map(int, seen)]
    # What it has open for a moment, to say that it has begun, is none of these.
    until(lambda: sorted(descriptors(pid)) == expected, what="it has these and no others")
    kept = descriptors(pid)
    assert kept[1] == kept[2] == str(probes.folder / "one" / "keeper.log")
    [forker] = forkers(os.getpid())
    assert passed.name not in descriptors(forker).values()


def test_a_keeper_is_deaf_to_no_signal_that_a_program_of_python_hears(probes: Probes) -> None:
    script = f"from {PROBE} import signals; print(*signals('self'), sep='\\n')"
    plain = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)  # noqa: PLW1510 - compared

    seen = probes.start("one")

    assert seen["signals"] == plain.stdout.splitlines()
    assert signals(seen["pid"]) == seen["signals"]


def test_a_forker_has_one_thread_and_no_connection(probes: Probes) -> None:
    seen = probes.start("one")

    [forker] = forkers(os.getpid())
    assert seen["threads"] == 1
    assert [one.name for one in (PROC / str(forker) / "task").iterdir()] == [str(forker)]
    open_there = descriptors(forker)
    link = [one for number, one in open_there.items() if number > 2]
    assert len(link) == 1
    assert link[0].startswith("socket:")


def test_a_forker_is_no_part_of_its_workers_session_and_has_no_children(probes: Probes) -> None:
    probes.start("one")

    [forker] = forkers(os.getpid())
    assert os.getsid(forker) == forker
    assert not processes(lambda pid, _: parent_of(pid) == forker)


@pytest.mark.parametrize(
    ("brief", "why"),
    [
        ({"refuses": "it is another's"}, "ValueError: it is another's$"),
        ({"breaks": "a bug"}, "Traceback .*RuntimeError: a bug$"),
        ({"leaves": 0}, "it said nothing$"),
        ({"waits_for": "fifo", "launch_s_max": 1}, "it said nothing$"),
    ],
)
def test_why_a_keeper_took_nothing_over_is_told(
    probes: Probes, brief: dict[str, Any], why: str
) -> None:
    if "waits_for" in brief:
        brief = {**brief, "waits_for": str(probes.folder / "fifo")}
        os.mkfifo(probes.folder / "fifo")

    with pytest.raises(SupervisorError, match=f"(?s)its keeper ended before it took over: {why}"):
        probes.start("one", **brief)

    assert probes.log("one") == ""
    until(lambda: not is_alive(probes.seen("one")["pid"]), what="it is gone")


def test_leases_are_renewed_until_a_keeper_has_taken_over(probes: Probes) -> None:
    fifo, renewed = probes.folder / "fifo", list[int]()
    os.mkfifo(fifo)

    def renew() -> None:
        renewed.append(1)
        if len(renewed) == 3:
            fifo.write_bytes(b"")

    launch(PROBE, probes.brief("one", waits_for=str(fifo)), renew, every_s=0.02)

    assert len(renewed) >= 3


def test_ten_starts_at_once_make_ten_keepers_and_one_forker(probes: Probes) -> None:
    FORK_SERVER.end()
    names = [f"k{n}" for n in range(10)]

    with ThreadPoolExecutor(10) as threads:
        seen = list(threads.map(probes.start, names))

    assert len({one["pid"] for one in seen}) == 10
    assert len({one["random"] for one in seen}) == 10, "none repeats what another draws"
    assert [Path(one["arguments"][1]).parent.name for one in seen] == names
    assert len(forkers(os.getpid())) == 1


def test_a_keeper_that_ends_waits_for_its_threads_and_writes_all_that_it_said(
    probes: Probes,
) -> None:
    seen = probes.start("one", ends=True)

    until(lambda: not is_alive(seen["pid"]), what="it has ended")
    assert probes.log("one") == "this is kept\nits thread is done\n"


def test_a_killed_forker_fails_at_most_what_is_under_way(probes: Probes) -> None:
    before = probes.start("before")
    [forker] = forkers(os.getpid())
    os.kill(forker, signal.SIGSTOP)

    def kill() -> None:
        os.kill(forker, signal.SIGKILL)

    with pytest.raises(SupervisorError, match="it said nothing"):
        launch(PROBE, probes.brief("under_way"), kill, every_s=0.02)
    probes.start("after")

    assert is_alive(before["pid"])
    assert forker not in forkers(os.getpid())
    assert not (probes.folder / "under_way" / "seen.json").exists()


def test_a_forker_that_hangs_is_replaced(probes: Probes, monkeypatch: pytest.MonkeyPatch) -> None:
    probes.start("before")
    [forker] = forkers(os.getpid())
    os.kill(forker, signal.SIGSTOP)

    with monkeypatch.context() as patched:
        patched.setattr(detached, "LAUNCH_S_MAX", 0.05)
        with pytest.raises(SupervisorError, match="took nothing over"):
            launch(PROBE, probes.brief("one"), lambda: None, every_s=0.02)

    assert not is_alive(forker)
    probes.start("after")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="there is one processor")
def test_a_forker_that_a_narrow_thread_starts_is_not_narrow(probes: Probes) -> None:
    every = os.sched_getaffinity(0)
    FORK_SERVER.end()

    def start() -> dict[str, Any]:
        os.sched_setaffinity(0, {min(every)})
        seen = probes.start("one")
        assert os.sched_getaffinity(0) == {min(every)}
        return seen

    with ThreadPoolExecutor(1) as narrow:
        seen = narrow.submit(start).result()

    assert seen["processors"] == sorted(every)


def end(worker: subprocess.Popen[bytes]) -> None:
    assert worker.stdin is not None
    worker.stdin.close()


@pytest.mark.parametrize("over", [subprocess.Popen.kill, end])
def test_a_forker_ends_with_its_worker_and_no_keeper_does(
    probes: Probes, over: Callable[[subprocess.Popen[bytes]], None]
) -> None:
    fifo, killed = probes.folder / "fifo", over is subprocess.Popen.kill
    os.mkfifo(fifo)
    late = {"waits_for": str(fifo)} if killed else {}
    briefs = [probes.brief("kept"), probes.brief("late", **late)]
    command = [sys.executable, "-c", WORKER, PROBE]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        worker.stdin.write(b"".join(f"{brief}\n".encode() for brief in briefs))
        worker.stdin.flush()
        # Killed in the middle of a start: who takes over after that keeps on as well.
        keepers = [probes.seen(name)["pid"] for name in ("kept", "late")]
        [forker] = forkers(worker.pid)
        over(worker)
        worker.wait()
    until(lambda: not is_alive(forker), what="the forker has ended")
    if killed:
        fifo.write_bytes(b"")

    until(lambda: probes.log("kept") and probes.log("late"), what="both are kept")
    assert all(is_alive(pid) for pid in keepers)


@pytest.mark.parametrize("module", SUPERVISORS)
def test_every_keeper_that_is_loaded_is_one(module: str) -> None:
    assert callable(import_module(module).main)
