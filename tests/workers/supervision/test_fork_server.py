"""The fork server forks supervisors, and each is like a program of its own."""

from __future__ import annotations

import inspect
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

from interlock.workers.supervision import launch as launching
from interlock.workers.supervision.fork_server import PRELOADED
from interlock.workers.supervision.launch import FORK_SERVER, SupervisorError, launch
from tests.processes import PROC, is_alive, parent_of, processes
from tests.waiting import until
from tests.workers.supervision.probe_supervisor import descriptors, signals

PROBE = "tests.workers.supervision.probe_supervisor"
# The modules of all supervisors.
SUPERVISORS = [f"interlock.systems.{system}.supervisor" for system in ("tasks", "loops", "runs")]
pytestmark = pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="there is no /proc")

# Launches a supervisor for each line of its input.
WORKER = """
import sys
from pathlib import Path
from interlock.workers.supervision.launch import launch

for line in sys.stdin:
    launch(sys.argv[1], Path(line.strip()), lambda: None, every_s=5)
"""


@dataclass
class Probes:
    """Supervisors under one folder: starts them, and reads the files that they write."""

    folder: Path

    def spec(self, name: str, **fields: Any) -> Path:
        """Write a spec file with these fields, and return it."""
        file = self.folder / name / "spec.json"
        file.parent.mkdir()
        file.write_text(json.dumps(fields))
        return file

    def start(self, name: str, *pass_fds: int, **fields: Any) -> dict[str, Any]:
        """Launch a supervisor, and return what it saw at its start."""
        launch(PROBE, self.spec(name, **fields), lambda: None, every_s=5, pass_fds=pass_fds)
        return self.seen(name)

    def seen(self, name: str) -> dict[str, Any]:
        """Return what a supervisor saw at its start."""
        file = self.folder / name / "seen.json"
        until(file.exists, what=f"{name} has begun")
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def log(self, name: str) -> str:
        """Return the output of a supervisor since it took over."""
        log = self.folder / name / "supervisor.log"
        return log.read_text() if log.exists() else ""


@pytest.fixture
def probes(tmp_path: Path) -> Iterator[Probes]:
    yield Probes(tmp_path)
    for seen in tmp_path.glob("*/seen.json"):
        with suppress(ProcessLookupError):
            os.kill(json.loads(seen.read_text())["pid"], signal.SIGKILL)


@pytest.fixture(scope="module", autouse=True)
def fork_server_ended() -> Iterator[None]:
    """End the fork server of this process after all of these tests, which share it."""
    yield
    FORK_SERVER.end()


def fork_servers_of(parent: int) -> list[int]:
    """Return the fork servers that a process started."""
    return processes(
        lambda pid, command: (
            b"interlock.workers.supervision.fork_server" in command and parent_of(pid) == parent
        )
    )


def test_a_supervisor_is_a_program_of_its_own_with_all_that_it_needs_loaded(probes: Probes) -> None:
    seen = probes.start("one")

    spec, [server] = str(probes.folder / "one" / "spec.json"), fork_servers_of(os.getpid())
    assert seen["session"] == seen["pid"]
    assert seen["parent"] not in (server, os.getpid())
    assert seen["folder"] == str(Path.cwd())
    assert seen["arguments"][1:] == [spec]
    assert {PROBE, *PRELOADED} <= set(seen["loaded"])
    command = (PROC / str(seen["pid"]) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    assert command == [word.encode() for word in (sys.executable, "-m", PROBE, spec)]
    until(lambda: probes.log("one") == "it runs\n", what="its output is in its log")


def test_a_supervisor_is_found_where_the_worker_finds_its_modules(
    probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"from {PROBE} import main\n"
    (probes.folder / "elsewhere.py").write_text(text)
    probes.start("one")  # the server runs before the worker adds the folder
    monkeypatch.syspath_prepend(probes.folder)

    launch("elsewhere", probes.spec("two"), lambda: None, every_s=5)

    assert "elsewhere" in probes.seen("two")["loaded"]


def test_a_command_line_that_is_too_long_is_cut(probes: Probes) -> None:
    probes.folder = probes.folder.joinpath(*["long" * 50] * 6)
    probes.folder.mkdir(parents=True)

    seen = probes.start("one")

    command = (PROC / str(seen["pid"]) / "cmdline").read_bytes()
    assert f"-m\0{PROBE}\0{probes.folder}"[:600].encode() in command
    os.kill(seen["pid"], signal.SIGKILL)


def test_a_supervisor_has_the_descriptors_that_are_passed_and_no_others(probes: Probes) -> None:
    probes.start("before")
    with (probes.folder / "passed").open("wb") as passed:
        seen = probes.start("one", passed.fileno())["descriptors"]

    standard = {number: seen.pop(number) for number in ("0", "1", "2")}
    assert standard.pop("2").startswith("pipe:")
    assert set(standard.values()) == {os.devnull}
    assert list(seen.values()) == [passed.name]
    pid, expected = probes.seen("one")["pid"], [0, 1, 2, *map(int, seen)]
    # The file that it has open for a moment at its start is none of these.
    until(lambda: sorted(descriptors(pid)) == expected, what="it has these and no others")
    final = descriptors(pid)
    assert final[1] == final[2] == str(probes.folder / "one" / "supervisor.log")
    [server] = fork_servers_of(os.getpid())
    # The fork server closes its copy after it has forked, when the supervisor may run already.
    until(lambda: passed.name not in descriptors(server).values(), what="the copy is closed")


def test_a_supervisor_has_the_signal_handlers_of_any_python_program(probes: Probes) -> None:
    # The function's text, because an import of its module would load all of a supervisor.
    function = inspect.getsource(signals)
    script = f"from pathlib import Path\n{function}\nprint(*signals('self'), sep='\\n')"
    plain = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)  # noqa: PLW1510 - compared

    seen = probes.start("one")

    assert seen["signals"] == plain.stdout.splitlines()
    assert signals(seen["pid"]) == seen["signals"]


def links_of(server: int) -> list[str]:
    """Return what a fork server has open besides its standard streams."""
    return [name for number, name in descriptors(server).items() if number > 2]


def test_a_fork_server_has_one_thread_and_no_connection(probes: Probes) -> None:
    seen = probes.start("one")

    [server] = fork_servers_of(os.getpid())
    assert seen["threads"] == 1
    assert [thread.name for thread in (PROC / str(server) / "task").iterdir()] == [str(server)]
    # It closes what it passed on to a supervisor once that is forked.
    until(lambda: len(links_of(server)) == 1, what="it has the link to its starter alone")
    [link] = links_of(server)
    assert link.startswith("socket:")


def test_a_fork_server_is_not_in_its_workers_session_and_has_no_children(probes: Probes) -> None:
    probes.start("one")

    [server] = fork_servers_of(os.getpid())
    assert os.getsid(server) == server
    # The process between it and a supervisor may not have ended yet.
    until(lambda: not processes(lambda pid, _: parent_of(pid) == server), what="it has no children")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"refuses": "it is another's"}, "ValueError: it is another's$"),
        ({"breaks": "a bug"}, "Traceback .*RuntimeError: a bug$"),
        ({"leaves": 0}, "it gave no reason$"),
        ({"waits_for": "fifo", "launch_s_max": 1}, "it gave no reason$"),
    ],
)
def test_a_failed_launch_raises_the_reason(
    probes: Probes, fields: dict[str, Any], reason: str
) -> None:
    if "waits_for" in fields:
        fields = {**fields, "waits_for": str(probes.folder / "fifo")}
        os.mkfifo(probes.folder / "fifo")

    with pytest.raises(
        SupervisorError, match=f"(?s)its supervisor ended before it took over: {reason}"
    ):
        probes.start("one", **fields)

    assert probes.log("one") == ""
    until(lambda: not is_alive(probes.seen("one")["pid"]), what="it is gone")


def test_leases_are_renewed_until_a_supervisor_has_taken_over(probes: Probes) -> None:
    fifo, renewed = probes.folder / "fifo", list[int]()
    os.mkfifo(fifo)

    def renew() -> None:
        renewed.append(1)
        if len(renewed) == 3:
            fifo.write_bytes(b"")

    launch(PROBE, probes.spec("one", waits_for=str(fifo)), renew, every_s=0.02)

    assert len(renewed) >= 3


def test_ten_launches_at_once_by_pinned_threads_make_ten_supervisors_and_one_free_fork_server(
    probes: Probes,
) -> None:
    every = os.sched_getaffinity(0)
    FORK_SERVER.end()
    names = [f"k{n}" for n in range(10)]

    def start(name: str) -> dict[str, Any]:
        os.sched_setaffinity(0, {min(every)})
        seen = probes.start(name)
        assert os.sched_getaffinity(0) == {min(every)}
        return seen

    with ThreadPoolExecutor(10) as threads:
        seen = list(threads.map(start, names))

    assert len({each["pid"] for each in seen}) == 10
    assert len({each["random"] for each in seen}) == 10, "no fork draws the numbers of another"
    assert [Path(each["arguments"][1]).parent.name for each in seen] == names
    assert [each["processors"] for each in seen] == [sorted(every)] * 10
    assert len(fork_servers_of(os.getpid())) == 1


def test_a_supervisor_that_ends_waits_for_its_threads_and_writes_all_its_output(
    probes: Probes,
) -> None:
    seen = probes.start("one", ends=True)

    until(lambda: not is_alive(seen["pid"]), what="it has ended")
    assert probes.log("one") == "it runs\nits thread is done\n"


def test_a_killed_fork_server_fails_only_the_launch_under_way(probes: Probes) -> None:
    before = probes.start("before")
    [server] = fork_servers_of(os.getpid())
    os.kill(server, signal.SIGSTOP)

    def kill() -> None:
        os.kill(server, signal.SIGKILL)

    with pytest.raises(SupervisorError, match="it gave no reason"):
        launch(PROBE, probes.spec("under_way"), kill, every_s=0.02)
    probes.start("after")

    assert is_alive(before["pid"])
    assert server not in fork_servers_of(os.getpid())
    assert not (probes.folder / "under_way" / "seen.json").exists()


def test_a_fork_server_that_hangs_is_replaced(
    probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes.start("before")
    [server] = fork_servers_of(os.getpid())
    os.kill(server, signal.SIGSTOP)

    with monkeypatch.context() as patched:
        patched.setattr(launching, "LAUNCH_S_MAX", 0.05)
        with pytest.raises(SupervisorError, match="did not take over"):
            launch(PROBE, probes.spec("one"), lambda: None, every_s=0.02)

    assert not is_alive(server)
    probes.start("after")


def end(worker: subprocess.Popen[bytes]) -> None:
    assert worker.stdin is not None
    worker.stdin.close()


@pytest.mark.parametrize("over", [subprocess.Popen.kill, end])
def test_a_fork_server_ends_with_its_worker_and_a_supervisor_does_not(
    probes: Probes, over: Callable[[subprocess.Popen[bytes]], None]
) -> None:
    fifo, killed = probes.folder / "fifo", over is subprocess.Popen.kill
    os.mkfifo(fifo)
    late = {"waits_for": str(fifo)} if killed else {}
    specs = [probes.spec("early"), probes.spec("late", **late)]
    command = [sys.executable, "-c", WORKER, PROBE]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        worker.stdin.write(b"".join(f"{spec}\n".encode() for spec in specs))
        worker.stdin.flush()
        # Killed in the middle of a launch: a supervisor that takes over after that runs as well.
        supervisors = [probes.seen(name)["pid"] for name in ("early", "late")]
        [server] = fork_servers_of(worker.pid)
        over(worker)
        worker.wait()
    until(lambda: not is_alive(server), what="the fork server has ended")
    if killed:
        fifo.write_bytes(b"")

    until(lambda: probes.log("early") and probes.log("late"), what="both run")
    assert all(is_alive(pid) for pid in supervisors)


@pytest.mark.parametrize("module", SUPERVISORS)
def test_every_supervisor_module_has_a_main(module: str) -> None:
    assert callable(import_module(module).main)
