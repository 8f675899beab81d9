"""Runs modules, as `python -m` does, in forks of one process that has imported what they share.

The half dozen processes of a deployment import the same modules, which takes each a second. The
server, whose program this file is too, imports them once and forks. It has one thread, and opens
nothing that its forks would share. Its forks end with it: when the process that started it closes
the socket between them, even because it was killed, the server sends each fork SIGTERM, and SIGKILL
after a time of grace. On Linux the forks also die when the server is killed.

The socket carries lines of JSON. The first is {"imports": names, "grace_s": seconds}; a name is
that of a module, or `module:function` for one whose function is called. Each other one is a request
{"module", "arguments", "environment", "output", "socket"}, which {"started": process id} answers,
or {"refused": why} where the system allows no further process. With `socket`, an option's name, the
line comes with the descriptor of a socket: the fork has it, and its number follows that option. At
the end of a fork the server sends {"ended": process id, "code": exit code}.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from errno import ECHILD
from importlib import import_module
from pathlib import Path
from typing import Any

READ_BYTES = 65_536
POLL_S = 0.02
SOCKETS_MAX = 16  # that come with what is read at once
START_S = 120.0  # a server that has not answered for so long, with its imports, is hung
KILLED = -int(signal.SIGKILL)
# Room in the server's command line, which that of a fork replaces.
COMMAND_LINE_ROOM = 1_000
# The fields of /proc/self/stat with the begin and the end of argv, counted after the name.
ARGUMENTS, ARGUMENTS_END = 45, 46
_PR_SET_PDEATHSIG = 1


class ModuleServer:
    """The connection to a server, for one thread at a time."""

    def __init__(self, imports: Sequence[str], *, grace_s: float) -> None:
        """Start nothing yet."""
        self._first = {"imports": [*imports], "grace_s": grace_s}
        self._patience_s = grace_s + 2
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._unread = b""
        self._started: list[int] = []
        self._refusals: list[str] = []
        self._codes: dict[int, int | None] = {}

    def begin(self) -> None:
        """Start the server, which then imports while this process goes on."""
        self.end()
        self._process, self._link = start_server(__name__)
        _send(self._link, self._first)

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        output: Path,
        listener: tuple[str, socket.socket] | None = None,
    ) -> int:
        """Run a module in a fork, and return its process id. Its output is added to a file.

        A `listener` is an option and a socket: the fork finds the socket's number at that option.
        Starts the server if it does not run. Raises ChildProcessError if it ends meanwhile, or does
        not answer for START_S, after which it is killed with its forks. It is raised too if the
        system allows no further process; the other forks go on then.
        """
        self._read()
        if self._link is None:
            self.begin()
        request = {
            "module": module,
            "arguments": [*arguments],
            "environment": {**environment},
            "output": str(output.absolute()),
            "socket": listener[0] if listener else "",
        }
        _send(self._link, request, [listener[1].fileno()] if listener else [])
        hung_at = time.monotonic() + START_S
        while not self._started:
            left_s = hung_at - time.monotonic()
            if left_s < 0:
                self._kill()
                why = f"the process that starts {module} has not answered for {START_S:g} s"
                raise ChildProcessError(ECHILD, why)
            self._read(wait_s=left_s)
            if self._refusals:
                why = self._refusals.pop()
                raise ChildProcessError(ECHILD, f"{module} cannot be forked: {why}")
            if self._link is None:
                raise ChildProcessError(ECHILD, f"the process that starts {module} has ended")
        return self._started.pop()

    def exit_code(self, process_id: int) -> int | None:
        """Return the exit code of a fork, negative for a signal; None while it runs."""
        self._read()
        return self._codes[process_id]

    def end(self) -> None:
        """End all forks and the server. It is killed if it takes longer than the time of grace."""
        if self._link is not None:
            self._link.close()
        if self._process is not None:
            try:
                self._process.wait(self._patience_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._link = self._process = None
        self._unread = b""

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._read(wait_s=self._patience_s)

    def _read(self, *, wait_s: float = 0) -> None:
        """Read the answers of the server. If there is none yet, wait for one up to `wait_s`."""
        while self._link is not None:
            if not select.select([self._link], [], [], wait_s)[0]:
                return
            wait_s = 0
            try:
                chunk = self._link.recv(READ_BYTES)
            except ConnectionResetError:
                chunk = b""  # it ended before it had read all requests
            *lines, self._unread = (self._unread + chunk).split(b"\n")
            for answer in map(json.loads, lines):
                if "started" in answer:
                    self._started.append(answer["started"])
                    self._codes[answer["started"]] = None
                elif "refused" in answer:
                    self._refusals.append(answer["refused"])
                else:
                    self._codes[answer["ended"]] = answer["code"]
            if not chunk:
                # It was killed, and its forks with it.
                self._codes = {one: KILLED if n is None else n for one, n in self._codes.items()}
                self.end()


def start_server(program: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a module that forks on request; return its process, and this end of its socket.

    It gets the number of the other end, and spaces, over which a fork can write its command line.
    """
    link, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", program, str(number), " " * COMMAND_LINE_ROOM],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(number,),
        )
    return process, link


def main() -> None:
    """Fork on request. In each fork, run its module."""
    request = serve(socket.socket(fileno=int(sys.argv[1])), os.getpid())
    if request is not None:
        run(**request)


def serve(link: socket.socket, server: int) -> dict[str, Any] | None:
    """Serve until the socket is closed. In a fork, return its request."""
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    unread, grace_s, forks, sockets = b"", 0.0, set[int](), list[int]()
    while True:
        ready = select.select([link.fileno(), woken], [], [])[0]
        if woken in ready:
            os.read(woken, READ_BYTES)
            report_ends(link, forks)
        chunk = read_from(link, sockets) if link.fileno() in ready else None
        if chunk == b"":
            end_all(forks, grace_s)
            return None
        *lines, unread = (unread + (chunk or b"")).split(b"\n")
        for request in map(json.loads, lines):
            if "imports" in request:
                import_all(request["imports"])
                grace_s = request["grace_s"]
                continue
            if option := request.pop("socket"):
                request["arguments"] += [option, str(sockets[0])]
            if is_fork(link, forks):
                begin_fork(server)
                link.close()
                os.close(woken)
                os.close(wake)
                return dict(request)
            if option:
                os.close(sockets.pop(0))


def read_from(link: socket.socket, sockets: list[int]) -> bytes:
    """Return what has come, and add the sockets that have come with it."""
    chunk, received, *_ = socket.recv_fds(link, READ_BYTES, SOCKETS_MAX)
    sockets += received
    return chunk


def report_ends(link: socket.socket, forks: set[int]) -> None:
    """Report each fork that has ended, and forget it."""
    for process_id, code in ended(forks):
        _send(link, {"ended": process_id, "code": code})


def is_fork(link: socket.socket, forks: set[int]) -> bool:
    """Fork, and answer how that went. Return whether this process is the fork."""
    try:
        process_id = os.fork()
    except OSError as refusal:
        # If the server ended here, all its forks would.
        _send(link, {"refused": str(refusal.strerror)})
        return False
    if process_id:
        forks.add(process_id)
        _send(link, {"started": process_id})
    return process_id == 0


def import_all(names: Iterable[str]) -> None:
    """Import modules, and call the functions that are named with them."""
    # An import makes objects that stay, so collections during the imports would find nothing.
    gc.disable()
    try:
        for name in names:
            module, _, function = name.partition(":")
            imported = import_module(module)
            if function:
                getattr(imported, function)()
    finally:
        gc.enable()
    assert threading.active_count() == 1, "a fork copies only the thread that calls it"
    # A garbage collection in a fork would write to the memory that all forks share.
    gc.collect()
    gc.freeze()


def begin_fork(server: int) -> None:
    """Make this fork the first process of a session, which dies when the server is killed."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)


def run(module: str, arguments: Sequence[str], environment: Mapping[str, str], output: str) -> None:
    """Run a module in this process, as `python -m` does."""
    log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    os.environ.clear()
    os.environ.update(environment)
    # The interpreter would search all objects for garbage at its end.
    atexit.register(gc.freeze)
    sys.argv = [module, *arguments]
    set_command_line([sys.executable, "-m", module, *arguments])
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def ended(forks: set[int]) -> list[tuple[int, int]]:
    """Forget the forks that have ended; return each with its exit code.

    What a fork left in its process group is killed.
    """
    found = []
    for process_id in sorted(forks):
        done, status = os.waitpid(process_id, os.WNOHANG)
        if done:
            forks.remove(process_id)
            _signal_group(process_id, signal.SIGKILL)
            found.append((process_id, os.waitstatus_to_exitcode(status)))
    return found


def end_all(forks: set[int], grace_s: float) -> None:
    """End all forks: SIGTERM, and SIGKILL to those that are left after the time of grace."""
    for process_id in forks:
        os.kill(process_id, signal.SIGTERM)
    until = time.monotonic() + grace_s
    while forks and time.monotonic() < until:
        ended(forks)
        time.sleep(POLL_S)
    for process_id in forks:
        _signal_group(process_id, signal.SIGKILL)
        os.waitpid(process_id, 0)


def set_command_line(arguments: list[str]) -> None:
    """Show these arguments as this process's command line, if the system allows it."""
    try:
        values = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begin, end = int(values[ARGUMENTS]), int(values[ARGUMENTS_END])
    except (OSError, IndexError):
        return
    room = end - begin
    if room > 0:
        shown = b"".join(os.fsencode(word) + b"\0" for word in arguments)[: room - 1]
        ctypes.memmove(begin, shown.ljust(room, b"\0"), room)


def _send(
    link: socket.socket | None, message: Mapping[str, Any], descriptors: Sequence[int] = ()
) -> None:
    # A peer that is gone shows at the next read.
    with suppress(BrokenPipeError, ConnectionResetError):
        if link is not None:
            line = json.dumps(message).encode() + b"\n"
            # The descriptors come with the first byte.
            sent = socket.send_fds(link, [line], [*descriptors]) if descriptors else 0
            link.sendall(line[sent:])


def _signal_group(process_id: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process_id, number)


if __name__ == "__main__":
    main()
