"""Under `interlock up` another user of the computer can do nothing and read nothing of it.

The tests try it as the user `nobody`, so they run where this user may become another one: as root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest

from interlock.workers.up_file import TOKEN_FILE
from tests.end_to_end.up import Up, running_up
from tests.git.scene import git
from tests.processes import processes
from tests.waiting import until

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user"),
    pytest.mark.timeout(300),
    pytest.mark.slow(minutes=1),
]
NOBODY = 65_534
LISTENS = "0A"  # the state of a socket in /proc/net/tcp
# Prints what it can read below the folders that are given, and of the processes of other users.
READS_ALL = """
import os, sys
for top in sys.argv[1:]:
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            try:
                with open(path, "rb") as file:
                    file.read(1)
            except OSError:
                continue
            print(path)
for process in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "fd", "mem", "cwd"):
        path = f"/proc/{process}/{name}"
        try:
            if os.stat(f"/proc/{process}").st_uid == os.getuid():
                continue
            os.listdir(path) if name in ("fd", "cwd") else open(path, "rb").read(1)
        except OSError:
            continue
        print(path)
"""
# Calls addresses without a token, and prints what each answers.
CALLS = """
import json, sys, urllib.error, urllib.request
found = []
for line in sys.argv[1:]:
    method, address = line.split()
    body = b"{}" if method == "POST" else None
    headers = {"Content-Type": "application/json", "Idempotency-Key": "a"}
    try:
        request = urllib.request.Request(address, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            found.append([answer.status, answer.url])
    except urllib.error.HTTPError as refusal:
        found.append([refusal.code, address])
print(json.dumps(found))
"""
# Connects to a socket of a file.
CONNECTS = """
import socket, sys
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect(sys.argv[1])
"""


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """Start `interlock up` in a folder that another user can enter."""
    folder = Path(mkdtemp(prefix="strangers-", dir="/tmp"))
    with running_up(folder, INTERLOCK_TASK_EVENTS="true") as started:
        yield started


def as_nobody(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Python as another user, who has nothing but a program of Python."""
    return subprocess.run(
        [os.path.realpath(sys.executable), "-I", "-S", "-c", script, *arguments],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        env={},
        capture_output=True,
        text=True,
        check=False,
    )


def at_work(up: Up) -> Path:
    """Let an agent work until the test has ended, and return its worktree."""
    repository = up.folder / "repository"
    repository.mkdir()
    git(repository, "init", "--quiet", "--initial-branch=main")
    git(repository, "commit", "--quiet", "--allow-empty", "-mx")
    agent = "echo x; echo x > file; until [ -e may_end ]; do sleep 1; done"
    up.command("task", "submit", "--repo", str(repository), "--title", "x", "--agent", agent)
    found = until(lambda: [*up.home.rglob("worktrees/**/file")], what="it is at work")
    return found[0].parent


def listening(process_ids: Sequence[int]) -> set[int]:
    """Return the TCP ports on which these processes listen."""
    held = set()
    for process_id in process_ids:
        with suppress(OSError):
            for each in Path(f"/proc/{process_id}/fd").iterdir():
                with suppress(OSError):
                    held.add(str(each.readlink()))
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENS and f"socket:[{words[9]}]" in held:
                ports.add(int(words[1].rpartition(":")[2], 16))
    return ports


def test_another_user_reads_no_file_of_up_and_nothing_of_its_processes(up: Up) -> None:
    worktree = at_work(up)
    assert next(up.home.rglob("*.aof"))
    assert next(up.home.rglob("output.log"))
    readable = up.folder / "readable"
    readable.write_text("by everybody")

    seen = as_nobody(READS_ALL, str(up.folder))

    assert seen.returncode == 0, seen.stderr
    # The repository is the user's own, and open.
    found = [line for line in seen.stdout.splitlines() if "/repository/" not in line]
    assert sorted(found) == [str(up.folder / name) for name in ("notices", "printed", "readable")]
    for folder in (up.home, worktree):
        assert as_nobody("import os, sys; os.listdir(sys.argv[1])", str(folder)).returncode != 0


def test_another_user_finds_no_store_and_no_way_into_console_api_and_flower(up: Up) -> None:
    api, flower = up.addresses["api"], up.addresses["flower"]
    ports = {urlsplit(address).port for address in (api, flower)}

    assert listening(up.processes()) == ports, "the store has no port, nor has anything else"
    socket_file = up.addresses["store"].removeprefix("unix://")
    assert "PermissionError" in as_nobody(CONNECTS, socket_file).stderr
    calls = [
        *(f"GET {api}/v1/{path}" for path in ("records", "cards", "top", "me", "tokens")),
        *(f"POST {api}/v1/{path}" for path in ("records", "messages/send", "tokens")),
        *(f"POST {api}/mcp", f"GET {api}/metrics", f"GET {api}/login/link?code=x"),
        *(f"GET {flower}/api/tasks", f"GET {flower}/api/workers", f"GET {flower}/tasks"),
    ]
    answered = json.loads(as_nobody(CALLS, *calls, f"GET {api}/", f"GET {api}/inbox").stdout)
    assert [status for status, _ in answered[:-2]] == [401] * len(calls), answered
    assert all(address.startswith(f"{api}/login?") for _, address in answered[-2:])


def test_no_secret_is_printed_or_stands_in_a_command_line(up: Up) -> None:
    flower = (up.home / "flower.url").read_text().strip()
    secrets = [(up.home / TOKEN_FILE).read_text().strip(), str(urlsplit(flower).password)]

    for secret in secrets:
        assert secret not in up.printed
        assert not processes(lambda _, command: secret.encode() in command)  # noqa: B023 - now
        for log in (up.home / "log").iterdir():
            assert secret not in log.read_text(), log
    assert up.addresses["console"] == up.addresses["api"], "others may read the file"
    assert "`interlock console` prints one" in up.printed
    link = json.loads(up.command("console", "--json"))["link"]
    assert httpx.get(link, timeout=180).status_code == httpx.codes.SEE_OTHER
    assert link.partition("?code=")[2] not in (up.home / "log" / "api.log").read_text()


def test_commands_and_calls_of_the_same_user_need_nothing_more(up: Up) -> None:
    submitted = up.command("submit", "--title", "Call the dentist", "--id", "call", "--json")
    shown = up.command("list", "--json")
    me = {"Authorization": f"Bearer {(up.home / TOKEN_FILE).read_text().strip()}"}

    assert json.loads(submitted)[0]["error"] is None
    assert "call" in shown
    called = httpx.get(f"{up.addresses['api']}/v1/records/call", headers=me, timeout=180)
    assert called.status_code == httpx.codes.OK
    login = (up.home / "flower.url").read_text().strip()
    assert httpx.get(f"{login}/api/workers", timeout=180).status_code == httpx.codes.OK
