"""The fork server: a process that has imported what supervisors need, and forks them on request.

`python -m interlock.workers.supervision.fork_server NUMBER ROOM`. Requests come over the socket
with the descriptor NUMBER; the server ends when the other end is closed. ROOM is only spaces. The
server has one thread, and opens neither store nor broker because its forks would share them.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import sys
from importlib import import_module

from interlock.workers.processes.module_server import import_all, set_command_line

# Modules that every supervisor imports at its start.
PRELOADED = ("celery.fixups.django", "celery.worker.worker")
REQUEST_BYTES_MAX = 65_536
DESCRIPTORS_MAX = 16


def main() -> None:
    """Fork supervisors. In each fork, run its supervisor."""
    # Registered first, so that it is called last.
    atexit.register(exit_at_once)
    for module in PRELOADED:
        import_module(module)
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        module, spec_file = request
        sys.argv = [module, spec_file]
        set_command_line([sys.executable, "-m", module, spec_file])
        import_module(module).main()


def serve(link: socket.socket) -> tuple[str, str] | None:
    """Serve requests until the socket is closed. In a fork, return its module and spec file."""
    while True:
        # A request with descriptors is never read together with the next one.
        request, descriptors, _, _ = socket.recv_fds(link, REQUEST_BYTES_MAX, DESCRIPTORS_MAX)
        if not request:
            return None
        try:
            module, spec_file, path = json.loads(request)
            if module not in sys.modules:  # before its first fork
                sys.path += [folder for folder in path if folder not in sys.path]
                import_all([module])
            if fork_orphan():
                break
        except (ImportError, OSError) as refusal:
            os.write(descriptors[0], f"it cannot be forked: {refusal}".encode())
        for descriptor in descriptors:
            os.close(descriptor)
    link.close()
    os.dup2(descriptors[0], 2)
    os.close(descriptors[0])
    return module, spec_file


def fork_orphan() -> bool:
    """Fork a process without a parent in a new session; return True in it. Raises OSError."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if status:
            raise BlockingIOError("there are too many processes, or there is too little memory")
        return False
    try:
        grandchild = os.fork()
    except OSError:
        os._exit(1)
    if grandchild:
        os._exit(0)
    os.setsid()
    return True


def exit_at_once() -> None:
    """Exit without tearing down the imported modules, which takes longer than a fork."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
