"""Modules run in forks of a server, as `python -m` runs them, and end with it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.workers.processes import module_server
from interlock.workers.processes.module_server import KILLED, ModuleServer
from tests.processes import is_alive
from tests.waiting import until

SHOWS = "import os, sys; print(__name__, sys.argv, sorted(os.environ), flush=True)\n"
SLEEPS = "import time; print('begun', flush=True); time.sleep(600)\n"
IGNORES_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SLEEPS}"
STARTS_ANOTHER = f"import subprocess; subprocess.Popen(['sleep', '600'])\n{SLEEPS}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleServer]:
    """Return a server that finds the modules of the test in its folder."""
    monkeypatch.chdir(tmp_path)
    server = ModuleServer(["json", "platform:platform"], grace_s=1)
    yield server
    server.end()


def start(server: ModuleServer, script: str, *arguments: str, **environment: str) -> int:
    """Run a script as a module."""
    Path("script.py").write_text(script)
    lines = output().count("\n")
    process_id = server.start("script", arguments, environment, Path("output"))
    until(lambda: output().count("\n") > lines, what="it has begun")
    return process_id


def output() -> str:
    """Return what the modules of the test have printed."""
    return Path("output").read_text() if Path("output").exists() else ""


def children(process_id: int) -> list[int]:
    """Return the processes that a process has started."""
    return [*map(int, Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split())]


def test_a_module_has_its_arguments_its_environment_and_its_exit_code(
    server: ModuleServer,
) -> None:
    fork = start(server, f"{SHOWS}sys.exit(3)", "-v", "x", ONLY="this")

    until(lambda: server.exit_code(fork) is not None, what="it has ended")
    assert server.exit_code(fork) == 3
    # Python itself adds LC_CTYPE where no language is set.
    shown = output().replace("'LC_CTYPE', ", "")
    file = Path("script.py").absolute()
    assert shown == f"__main__ ['{file}', '-v', 'x'] ['ONLY']\n"


def test_a_socket_is_passed_on_to_the_fork_that_is_to_have_it_and_to_no_other(
    server: ModuleServer,
) -> None:
    Path("accepts.py").write_text(
        "import socket, sys\n"
        "listener = socket.socket(fileno=int(sys.argv[sys.argv.index('--socket') + 1]))\n"
        "print('begun', flush=True)\n"
        "listener.accept()[0].sendall(b'mine')\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        before = os.fstat(listener.fileno()).st_ino
        for _ in range(2):  # a process that is started again gets it again
            fork = server.start("accepts", ["x"], {}, Path("output"), ("--socket", listener))
            with socket.create_connection(listener.getsockname()) as client:
                assert client.recv(10) == b"mine"
            until(lambda: server.exit_code(fork) == 0, what="it has ended")  # noqa: B023 - now
        other = start(server, SLEEPS)

        held = {each.stat().st_ino for each in Path(f"/proc/{other}/fd").iterdir()}
        assert before not in held


def test_the_end_is_orderly_and_waits_no_longer_than_the_time_of_grace(
    server: ModuleServer,
) -> None:
    says_so = "import sys, signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit('asked'))\n"
    patient = ModuleServer([], grace_s=600)
    forks = [start(patient, says_so + SLEEPS), start(server, IGNORES_SIGTERM)]

    patient.end()
    server.end()

    assert "asked" in output()
    until(lambda: not any(map(is_alive, forks)), what="both are gone")


def test_nothing_that_a_module_started_outlives_it(server: ModuleServer) -> None:
    fork = start(server, STARTS_ANOTHER)
    (child,) = children(fork)

    os.kill(fork, signal.SIGKILL)

    until(lambda: server.exit_code(fork) == KILLED, what="its end is known")
    until(lambda: not is_alive(child), what="its child is gone")


def test_a_server_that_is_killed_takes_its_modules_along_and_the_next_start_makes_another(
    server: ModuleServer,
) -> None:
    fork = start(server, SLEEPS)
    assert server._process is not None

    # It is killed before it has read a request.
    server._process.send_signal(signal.SIGSTOP)
    module_server._send(server._link, {"module": "script"})
    server._process.kill()

    until(lambda: server.exit_code(fork) == KILLED, what="its end is known")
    until(lambda: not is_alive(fork), what="it is gone")
    assert is_alive(start(server, SLEEPS))


def test_a_server_that_does_not_answer_is_killed_with_its_forks(
    server: ModuleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = start(server, SLEEPS)
    assert server._process is not None
    server._process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(module_server, "START_S", 0.1)

    with pytest.raises(ChildProcessError, match="that starts script has not answered for 0"):
        server.start("script", (), {}, Path("output"))
    until(lambda: not is_alive(fork), what="its fork has ended")
    assert server.exit_code(fork) == KILLED


def test_a_server_that_cannot_import_is_reported(tmp_path: Path) -> None:
    server = ModuleServer(["no_such_module"], grace_s=1)

    with pytest.raises(ChildProcessError, match="the process that starts script has ended"):
        server.start("script", [], {}, tmp_path / "output")


def test_a_server_that_cannot_fork_says_so_and_keeps_its_forks(
    server: ModuleServer, tmp_path: Path
) -> None:
    refuses = "import os\n\n\ndef fork():\n    raise BlockingIOError(11, 'no more processes')\n\n\n"
    Path("no_forks.py").write_text(f"{refuses}def begin():\n    os.fork = fork\n")
    fork = start(server, SLEEPS)
    assert server._link is not None
    # In the server that runs, forking is refused from now on.
    module_server._send(server._link, {"imports": ["no_forks:begin"], "grace_s": 1})

    with pytest.raises(ChildProcessError, match="script cannot be forked: no more processes"):
        server.start("script", [], {}, tmp_path / "output")

    assert server.exit_code(fork) is None
    assert is_alive(fork)
