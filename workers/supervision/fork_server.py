"""Forks keepers from one process that has imported what they need; it keeps nothing itself.

`python -m interlock.workers.supervision.fork_server NUMBER ROOM`: who holds the other end of the
socket NUMBER orders keepers, and it ends when nobody does any more. It has one thread, and opens no
store and no broker: a fork would share them.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path

# What every keeper imports when it begins.
NEEDED = ("celery.fixups.django", "celery.worker.worker")
ORDER_BYTES_MAX = 65_536
DESCRIPTORS_MAX = 16
# The words of /proc/self/stat, counted from behind its name, between whose values argv is.
ARGUMENTS, ARGUMENTS_END = 45, 46


def main() -> None:
    """Fork keepers; in each of them, run it."""
    # Registered first, it comes last.
    atexit.register(leave)
    for module in NEEDED:
        import_module(module)
    order = serve(socket.socket(fileno=int(sys.argv[1])))
    if order is not None:
        module, brief = order
        sys.argv = [module, brief]
        show([sys.executable, "-m", module, brief])
        import_module(module).main()


def serve(link: socket.socket) -> tuple[str, str] | None:
    """Take orders until nobody is left to give any; in a keeper, return its own."""
    while True:
        # What carries descriptors is never read together with what follows it.
        order, descriptors, _, _ = socket.recv_fds(link, ORDER_BYTES_MAX, DESCRIPTORS_MAX)
        if not order:
            return None
        try:
            prepare(json.loads(order)[0])
            if forked():
                break
        except (ImportError, OSError) as refusal:
            os.write(descriptors[0], f"it cannot be forked: {refusal}".encode())
        for descriptor in descriptors:
            os.close(descriptor)
    link.close()
    os.dup2(descriptors[0], 2)
    os.close(descriptors[0])
    module, brief = json.loads(order)
    return module, brief


def prepare(module: str) -> None:
    """Import a kind of keeper before the first of its kind is forked. Raises ImportError."""
    if module in sys.modules:
        return
    import_module(module)
    assert threading.active_count() == 1, "a fork takes only the thread along that calls it"
    # A garbage collection in a keeper would write to the memory that all of them share.
    gc.collect()
    gc.freeze()


def forked() -> bool:
    """Fork a process without a parent, in a session of its own; True in it. Raises OSError."""
    between = os.fork()
    if between:
        _, status = os.waitpid(between, 0)
        if status:
            raise BlockingIOError("there are too many processes, or there is too little memory")
        return False
    try:
        last = os.fork()
    except OSError:
        os._exit(1)
    if last:
        os._exit(0)
    os.setsid()
    return True


def show(words: list[str]) -> None:
    """Let this process's command line be these words, where the system lets a process do that."""
    try:
        values = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begin, end = int(values[ARGUMENTS]), int(values[ARGUMENTS_END])
    except (OSError, IndexError):
        return
    room = end - begin
    if room > 0:
        shown = b"".join(os.fsencode(word) + b"\0" for word in words)[: room - 1]
        ctypes.memmove(begin, shown.ljust(room, b"\0"), room)


def leave() -> None:
    """End at once: to take apart what was imported costs more than a fork."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
