"""Which sockets of the computer a command in a sandbox reaches; each is a real one that listens."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.workers.processes.sandbox import Sandbox

# A client that connects, waits until its line on stdin says that the server was started again, and
# connects once more.
CLIENT = """
import socket, sys
for _ in range(2):
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(sys.argv[1])
            print("reached", flush=True)
        except OSError as error:
            print("refused", flush=True)
    sys.stdin.readline()
"""
Listen = Callable[[Path], socket.socket]


@pytest.fixture
def listen() -> Iterator[Listen]:
    opened: list[socket.socket] = []

    def listens(path: Path) -> socket.socket:
        path.unlink(missing_ok=True)
        made = socket.socket(socket.AF_UNIX)
        made.bind(str(path))
        made.listen()
        opened.append(made)
        return made

    yield listens
    for made in opened:
        made.close()


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a home with a short path: that of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for name in ("place", ".docker/desktop", ".ssh", ".cache"):
            Path(folder, name).mkdir(parents=True)
        yield Path(folder)


def connects(made: Sandbox, path: Path, listen: Listen) -> list[str]:
    """Connect from a sandbox, start the server again, and connect again."""
    command = made.around([sys.executable, "-c", CLIENT, str(path)], made.writable[0])
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as client:
        assert client.stdout is not None
        first = client.stdout.readline().strip()
        listen(path)
        return [first, client.communicate("\n\n")[0].strip()]


@pytest.mark.parametrize("name", [".docker/desktop/docker.sock", ".ssh/control", "at-the-top"])
def test_no_socket_in_the_home_is_reached_also_if_its_server_starts_again(
    home: Path, listen: Listen, name: str
) -> None:
    (home / ".ssh" / "known_hosts").write_text("a host")
    listen(home / name)
    made = Sandbox(hidden=(), writable=[home / "place"], home=home)

    assert connects(made, home / name, listen) == ["refused", "refused"]

    seen = made.around(["sh", "-c", f"cat {home}/.ssh/known_hosts; touch {home}/.ssh/x"], home)
    done = subprocess.run(seen, capture_output=True, text=True, check=False)
    assert done.stdout == "a host"
    assert "Read-only" in done.stderr
    # The guard is needed: a folder that can only be read keeps nobody from its sockets.
    open_one = Sandbox(hidden=(), writable=[home / "place"], home=home, is_closed=False)
    assert connects(open_one, home / name, listen) == ["reached", "reached"]


@pytest.mark.parametrize("many", [0, 600])
def test_no_socket_elsewhere_is_reached(home: Path, listen: Listen, many: int) -> None:
    """In a folder with many files, as in one that can be written, the file alone is hidden."""
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    for number in range(many):
        (elsewhere / str(number)).touch()
    for path in (elsewhere / "docker.sock", home / "place" / "own.sock"):
        listen(path)
        made = Sandbox(
            hidden=(), writable=[home / "place"], shown=[(elsewhere, elsewhere)], home=None
        )
        seen = connects(made, path, listen)
        is_writable = path.parent == home / "place"
        assert seen == ["refused", "reached" if many or is_writable else "refused"]


def test_a_socket_that_a_server_makes_later_in_a_folder_of_sockets_is_not_reached(
    home: Path, listen: Listen
) -> None:
    made = Sandbox(hidden=(), writable=[home / "place"], home=home)
    assert connects(made, home / ".ssh" / "control", listen) == ["refused", "refused"]


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("is_up", [True, False])
def test_the_socket_of_the_store_is_not_reached_also_if_the_store_starts_again(
    home: Path, listen: Listen, *, is_closed: bool, is_up: bool
) -> None:
    store = home / "store" / "store.sock"
    store.parent.mkdir()
    (store.parent / "store.pid").write_text("1")
    if is_up:
        listen(store)
    made = Sandbox(
        hidden=(), sockets=[store], writable=[home / "place"], home=home, is_closed=is_closed
    )
    assert connects(made, store, listen) == ["refused", "refused"]


def test_an_open_sandbox_hides_the_file_of_a_store_whose_folder_has_other_files(
    home: Path, listen: Listen
) -> None:
    listen(home / "store.sock")
    made = Sandbox(
        hidden=(), sockets=[home / "store.sock"], writable=[home / "place"], is_closed=False
    )
    assert connects(made, home / "store.sock", listen)[0] == "refused"
    assert (home / "place").exists()
