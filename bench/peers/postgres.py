"""A Postgres cluster of one's own, in a folder, for the duration of a block."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from bench.peers.environment import MissingError
from interlock.workers.gateways.server import LOOPBACK, free_port
from interlock.workers.processes.bound_process import end_bound, start_bound

DEBIAN = Path("/usr/lib/postgresql")
USERS = ("postgres", "nobody")  # Postgres does not start as root
START_S, STOP_S = 60.0, 30.0


class Cluster:
    """A running cluster, and the databases in it."""

    def __init__(self, folder: Path, programs: Path, port: int) -> None:
        self.folder, self.programs, self.port = folder, programs, port

    @property
    def version(self) -> str:
        """The version of the server, such as 15.18."""
        command = [str(self.programs / "postgres"), "--version"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[2]

    def url(self, database: str, scheme: str = "postgresql") -> str:
        """Return the address of a database."""
        return f"{scheme}://bench@{LOOPBACK}:{self.port}/{database}"

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """Create a database for the duration of a block, and yield its name."""
        self._run(f"create database {name}")
        try:
            yield name
        finally:
            self._run(f"drop database {name} with (force)")

    def _run(self, statement: str) -> None:
        psql = [str(self.programs / "psql"), "-qX", self.url("postgres"), "-c", statement]
        subprocess.run(psql, check=True, stdout=subprocess.DEVNULL)


def programs() -> Path:
    """Return the folder with the newest Postgres that is installed."""
    found = [folder for folder in DEBIAN.glob("*/bin") if (folder / "initdb").exists()]
    if elsewhere := shutil.which("initdb"):
        found.append(Path(elsewhere).resolve().parent)
    if not found:
        raise MissingError("no Postgres is installed (apt-get install postgresql)")
    return max(found, key=lambda folder: (len(folder.parent.name), folder.parent.name))


@contextmanager
def open_cluster() -> Iterator[Cluster]:
    """Run a new cluster with the settings that Postgres has by default."""
    where, folder, port = programs(), Path(mkdtemp(prefix="interlock-bench-pg-")), free_port()
    as_user = _as_user(folder)
    log = (folder / "log").open("ab")
    options = ["--auth=trust", "--username=bench", "--encoding=UTF8", "--no-sync", "-D"]
    initdb = [*as_user, str(where / "initdb"), *options, str(folder / "data")]
    subprocess.run(initdb, cwd=folder, stdout=log, stderr=log, check=True)
    server = start_bound(
        [
            *(*as_user, str(where / "postgres"), "-D", str(folder / "data"), "-p", str(port)),
            *("-c", f"listen_addresses={LOOPBACK}", "-c", "unix_socket_directories="),
        ],
        folder=folder,
        output=log,
        grace_s=STOP_S,
    )
    try:
        cluster = Cluster(folder, where, port)
        _until_ready(cluster)
        yield cluster
    finally:
        end_bound(server, patience_s=STOP_S + 2)
        log.close()
        shutil.rmtree(folder)


def _as_user(folder: Path) -> Sequence[str]:
    """Return what to put before a command so that it does not run as root."""
    if os.geteuid() != 0:
        return ()
    names = {user.pw_name: user for user in pwd.getpwall()}
    user = next(names[name] for name in USERS if name in names)
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")


def _until_ready(cluster: Cluster) -> None:
    command = [str(cluster.programs / "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(cluster.port)]
    until = time.monotonic() + START_S
    while subprocess.run(command, check=False).returncode != 0:
        if time.monotonic() > until:
            raise MissingError(f"Postgres did not start: {(cluster.folder / 'log').read_text()}")
        time.sleep(0.1)
