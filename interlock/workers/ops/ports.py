"""The ports of a deployment on one computer: which were asked for, and which ones it has."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path

from interlock.workers.gateways.server import PortTakenError, free_port, is_free, listen
from interlock.workers.processes.port_user import in_use

PORTS_FILE = "ports.json"


class Ports:
    """Chooses ports: the one asked for, or that of the last start, or the usual one, or a free one.

    Where it is not the first of these, a notice says who may have that.
    """

    def __init__(self, asked: Mapping[str, int | None], notices: list[str]) -> None:
        self.asked, self.notices = asked, notices
        self.chosen: dict[str, int] = {}

    def listen(self, name: str, usual: int) -> socket.socket:
        """Return a socket that listens on the port. Raises PortTakenError for one asked for."""
        wanted = self._wanted(name, usual)
        listener = listen(wanted)
        try:
            self._keep(name, wanted, int(listener.getsockname()[1]))
        except PortTakenError:
            listener.close()
            raise
        return listener

    def choose(self, name: str) -> int:
        """Return the port for a program that listens itself. Raises PortTakenError."""
        wanted = self._wanted(name, None)
        self._keep(name, wanted, wanted if is_free(wanted) else free_port())
        return self.chosen[name]

    def _wanted(self, name: str, usual: int | None) -> int:
        return self.asked[name] or self.chosen.get(name) or usual or free_port()

    def _keep(self, name: str, wanted: int, port: int) -> None:
        if port != wanted:
            if self.asked[name]:
                raise PortTakenError(wanted)
            self.notices.append(f"{in_use(wanted)}: {name} has port {port} now")
        self.chosen[name] = port


def read_ports(home: Path) -> dict[str, int]:
    """Return the ports of the last start; none if there was none or the file is damaged."""
    try:
        found = json.loads((home / PORTS_FILE).read_text("utf-8"))
        return {str(name): int(port) for name, port in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_ports(home: Path, ports: Mapping[str, int]) -> None:
    """Keep the ports for the next start."""
    (home / PORTS_FILE).write_text(json.dumps(ports) + "\n", "utf-8")
