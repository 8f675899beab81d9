"""Who has a port is named as far as this user may see it."""

from __future__ import annotations

import os
import socket

import pytest

from interlock.workers.processes import port_user
from interlock.workers.processes.port_user import in_use, user_of_port


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_a_process_is_named_with_its_command(family: int, address: str) -> None:
    with socket.create_server((address, 0), family=socket.AddressFamily(family)) as listener:
        port = listener.getsockname()[1]
        found = user_of_port(port)

    assert found.startswith(f"process {os.getpid()} (")
    assert user_of_port(port) == ""
    assert in_use(port) == f"port {port} is in use"


def test_of_another_users_program_the_user_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # Such a process shows none of its files.
    monkeypatch.setattr(port_user, "_has_open", lambda *_: False)
    monkeypatch.setattr("os.getuid", lambda: -1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = user_of_port(listener.getsockname()[1])

    assert found.startswith("a program of the user ")
