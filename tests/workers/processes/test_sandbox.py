"""What a command in a sandbox sees and may do; each sandbox is made by bubblewrap."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.workers.processes import sandbox
from interlock.workers.processes.sandbox import Sandbox, probe
from tests.waiting import until

SHARED = "/tmp"  # noqa: S108 - the folder itself
SECRET = "hunter2-in-an-environment"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder in which a command may write."""
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def run(
    made: Sandbox, place: Path, script: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    command = made.around(["bash", "-c", script], place)
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def sees(made: Sandbox, place: Path, script: str, **variables: str) -> str:
    done = run(made, place, script, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_this_computer_can_make_sandboxes() -> None:
    assert probe() == ""


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PROGRAM", "no-such-bubblewrap")
    assert "no-such-bubblewrap is not installed; it is in the package bubblewrap" in probe()


def test_why_no_sandbox_can_be_made_is_what_the_program_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create a namespace' >&2; exit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sandbox, "PROGRAM", str(program))
    assert probe() == "bwrap: No permissions to create a namespace"


def test_only_the_writable_folder_can_be_written(place: Path) -> None:
    made = Sandbox(hidden=(), writable=[place])
    target = Path(sandbox.__file__)
    done = run(made, place, f"echo 1 > here; echo >> {target}; echo > /etc/interlock-was-here")
    assert (place / "here").read_text() == "1\n"
    assert done.stderr.count("Read-only file system") == 2


def test_a_part_of_a_writable_folder_can_be_kept_from_changes(place: Path) -> None:
    (place / "fixed").mkdir()
    made = Sandbox(hidden=(), writable=[place], read_only=[place / "fixed"])
    assert "Read-only" in run(made, place, "touch fixed/new").stderr
    assert "busy" in run(made, place, "mv fixed other").stderr


def test_what_is_hidden_is_not_shown_as_a_part_that_can_be_read(place: Path) -> None:
    (place / "home" / "store").mkdir(parents=True)
    (place / "home" / "token").write_text(SECRET)
    parts = [place / "home", place / "home" / "store"]
    made = Sandbox(hidden=[place / "home"], writable=[place], read_only=parts)
    assert sees(made, place, "ls home") == "store"
    assert "Read-only" in run(made, place, "touch home/store/new").stderr
    assert "busy" in run(made, place, "mv home other").stderr


@pytest.mark.parametrize("is_closed", [True, False])
def test_hidden_files_and_folders_cannot_be_read(
    tmp_path: Path, place: Path, *, is_closed: bool
) -> None:
    home, file, link = tmp_path / "home", tmp_path / "file", tmp_path / "link"
    (home / "own").mkdir(parents=True)
    for secret in (home / "token", file):
        secret.write_text(SECRET)
    link.symlink_to(home)
    hidden = [link, file, home / "token"]
    made = Sandbox(hidden=hidden, writable=[place, tmp_path], is_closed=is_closed)
    assert sees(made, place, f"ls -A {home} {link}/") == f"{home}:\n\n{link}/:"
    assert SECRET not in run(made, place, f"cat {home}/token {link}/token {file}").stdout


def test_a_writable_folder_in_a_hidden_one_is_seen(tmp_path: Path) -> None:
    own = tmp_path / "hidden" / "own"
    (tmp_path / "hidden" / "other").mkdir(parents=True)
    own.mkdir()
    made = Sandbox(hidden=[own.parent], writable=[own])
    assert sees(made, own, "touch made; ls ..") == "own"
    assert (own / "made").exists()


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process of the same user, with a secret in its environment."""
    environment = {**os.environ, "SECRET": SECRET}
    with subprocess.Popen(["/bin/sleep", "600"], env=environment) as process:
        yield process
        process.kill()


def test_other_processes_are_neither_seen_nor_reached(
    place: Path, other: subprocess.Popen[bytes]
) -> None:
    done = run(Sandbox(hidden=(), writable=[place]), place, f"kill -9 {other.pid}; ps ax")
    assert "No such process" in done.stderr
    assert "sleep 600" not in done.stdout
    assert other.poll() is None


@pytest.mark.parametrize("is_closed", [True, False])
def test_the_environment_and_files_of_other_processes_cannot_be_read(
    place: Path, other: subprocess.Popen[bytes], *, is_closed: bool
) -> None:
    made = Sandbox(hidden=(), is_closed=is_closed, writable=[place])
    script = f"grep -l {SECRET} /proc/[0-9]*/environ; ls /proc/{other.pid}/root/"
    done = run(made, place, script)
    assert done.stdout == ""
    assert f"/proc/{other.pid}/root/" in done.stderr


@pytest.mark.parametrize("is_closed", [True, False])
def test_no_process_shows_what_is_hidden_not_even_that_of_bubblewrap(
    tmp_path: Path, place: Path, *, is_closed: bool
) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "token").write_text(SECRET)
    made = Sandbox(hidden=[tmp_path / "hidden"], is_closed=is_closed, writable=[place])
    script = f"cat /proc/[0-9]*/root{tmp_path}/hidden/token /proc/[0-9]*/cwd/../hidden/token"
    assert run(made, place, script).stdout == ""


def test_commands_in_open_sandboxes_have_ids_that_no_two_share(place: Path) -> None:
    made = Sandbox(hidden=(), is_closed=False)
    assert len({sees(made, place, "echo $$") for _ in range(3)}) == 3


def test_it_has_no_capability_and_cannot_get_out(tmp_path: Path, place: Path) -> None:
    made = Sandbox(hidden=[tmp_path / "hidden"], writable=[place])
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "token").write_text(SECRET)
    assert sees(made, place, "grep CapEff /proc/self/status").split() == ["CapEff:", "0" * 16]
    escape = f"umount {tmp_path}/hidden; mount -o remount,rw /; cat {tmp_path}/hidden/token"
    done = run(made, place, f"{escape}; unshare -Urm sh -c '{escape}; touch /etc/x'")
    assert SECRET not in done.stdout
    assert not Path("/etc/x").exists()


def test_its_home_is_one_of_its_own_with_what_the_real_one_has(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "user"
    for name in (".cache", ".config"):
        (home / name).mkdir(parents=True)
    (home / ".bashrc").write_text("true\n")
    (home / "link").symlink_to(".config")
    monkeypatch.setenv("HOME", str(home))
    made = Sandbox(hidden=(), writable=[place, Path("~/.cache"), Path("~/.not-there")])
    script = "cd ~; touch .new .cache/kept && ls -A; echo evil >> .bashrc; touch link/new"
    done = run(made, place, script)
    assert done.stdout.split() == [".bashrc", ".cache", ".config", ".new", "link"]
    assert done.stderr.count("Read-only file system") == 2
    assert {path.name for path in home.iterdir()} == {".bashrc", ".cache", ".config", "link"}
    assert (home / ".cache" / "kept").exists()


def test_sockets_in_the_folders_of_the_computer_are_not_reached(place: Path) -> None:
    made = Sandbox(hidden=(), writable=[place])
    with tempfile.NamedTemporaryFile(dir=SHARED) as file:
        assert sees(made, place, f"find {SHARED} /run -type s; ls {file.name} || true") == ""
        assert Path(file.name).exists()


@pytest.mark.parametrize("is_closed", [True, False])
def test_it_gets_sigterm_and_its_exit_code_is_passed_on(place: Path, *, is_closed: bool) -> None:
    script = "trap 'echo saved > saved; exit 5' TERM; touch up; while :; do sleep 0.02; done"
    made = Sandbox(hidden=(), writable=[place], is_closed=is_closed)
    command = made.around(["bash", "-c", script], place)
    with subprocess.Popen(command, start_new_session=True) as process:
        until((place / "up").exists, what="it runs")
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(60) == 5
    assert (place / "saved").exists()


def test_what_it_left_behind_ends_with_its_first_process(place: Path) -> None:
    script = "setsid sh -c 'touch up; exec sleep 600' & while [ ! -e up ]; do sleep 0.02; done"
    made = Sandbox(hidden=(), writable=[place])
    command = made.around(["bash", "-c", f"{script}; sleep 600"], place)
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE) as process:
        until((place / "up").exists, what="the process runs in a session of its own")
        os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout is not None
        assert process.stdout.read() == b""  # its end is only open as long as a process has it


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run a command as another user")
def test_another_user_without_rights_makes_it_too() -> None:
    made = Sandbox(hidden=[Path("/etc/passwd")], home=None)
    os.seteuid(65_534)  # what is mounted depends on what this user can read
    try:
        command = made.around(["sh", "-c", "id -u; cat /etc/passwd; ps ax | wc -l"], Path("/"))
    finally:
        os.seteuid(0)
    user = [shutil.which("setpriv") or "setpriv", "--reuid=65534", "--regid=65534"]
    done = subprocess.run(
        [*user, "--clear-groups", *command], capture_output=True, text=True, check=False
    )
    assert done.stdout.split()[:1] == ["65534"], done.stderr
    assert "root:" not in done.stdout
    assert "Permission denied" in done.stderr


def test_descriptors_are_passed_on(place: Path) -> None:
    reading, writing = os.pipe()
    command = Sandbox(hidden=(), writable=[place]).around(
        ["bash", "-c", f"echo report >&{writing}"], place
    )
    try:
        subprocess.run(command, pass_fds=[writing], check=True, cwd="/")
        assert os.read(reading, 100) == b"report\n"
    finally:
        os.close(reading)
        os.close(writing)


def test_python_of_this_project_runs_in_it(place: Path) -> None:
    made = Sandbox(hidden=(), writable=[place])
    program = f"{sys.executable} -c 'import interlock.workers.config as c; print(c.PREFIX)'"
    assert sees(made, place, program) == "INTERLOCK_"
