"""Processes of a test run that are forks of one process, which has imported all tests once.

pytest-xdist starts each of its processes as a program and sends it code over its standard input.
Here this file is that program. It passes its standard streams to a server, a fork of the process
that runs pytest. The server forks a process that takes the streams and runs the code, and this
program waits until it ends.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import sys
from pathlib import Path

CODE_BYTES_MAX = 65_536
PR_SET_PDEATHSIG = 1


def start_server(folder: Path) -> str:
    """Fork a server that ends with this process; return the program that requests a process."""
    listener = socket.socket(socket.AF_UNIX)
    address = folder / "forks"
    listener.bind(str(address))
    listener.listen()
    # A fork that collects garbage would copy all that it shares with the others.
    gc.freeze()
    parent = os.getpid()
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            serve(listener)
        os._exit(0)
    listener.close()
    return f"{sys.executable} -I -S {__file__} {address}"


def serve(listener: socket.socket) -> None:
    """Fork a process for each request."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the forks
    while True:
        request, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            run_code(request)
        request.close()


def run_code(request: socket.socket) -> None:
    """Run the code of a request on its standard streams, as `python -c` would. Never returns."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code, streams, _, _ = socket.recv_fds(request, CODE_BYTES_MAX, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
        for number, mode in enumerate("rww")
    )
    sys.argv = ["-c"]
    failed = True
    try:
        exec(code.decode(), {"__name__": "__main__"})  # noqa: S102 - this is what it is for
        failed = False
    finally:
        if failed:
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(failed)


def main(address: str, *arguments: str) -> None:
    """Request a process that runs the last argument, and wait until it has ended."""
    with socket.socket(socket.AF_UNIX) as request:
        request.connect(address)
        socket.send_fds(request, [arguments[-1].encode()], [0, 1, 2])
        request.recv(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
